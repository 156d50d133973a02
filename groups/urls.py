"""This room names the addresses of the pages about groups."""

from django.urls import path

from access.any_name import ANY_NAME
from groups import asking_views, views

urlpatterns = [
    path("groups/", views.group_list, name="groups"),
    path(f"ask/<str:kind>/<{ANY_NAME}:name>/", asking_views.ask, name="ask"),
    path("requests/<uuid:request_id>/", asking_views.told, name="request"),
    path(f"groups/<{ANY_NAME}:name>/", views.group_detail, name="group"),
]
