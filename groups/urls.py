"""This room names the addresses of the pages about groups."""

from django.urls import path

from access.any_name import ANY_NAME_IN_A_LINK
from groups import asking_views, views

_NAME = f"<{ANY_NAME_IN_A_LINK}:name>"

urlpatterns = [
    path("groups/", views.group_list, name="groups"),
    path(f"ask/<str:kind>/{_NAME}/", asking_views.ask, name="ask"),
    path("requests/<uuid:request_id>/", asking_views.told, name="request"),
    path(f"groups/{_NAME}/", views.group_detail, name="group"),
]
