"""This room names the addresses of the pages about groups; a group id may hold slashes."""

from django.urls import path

from groups import asking_views, views

urlpatterns = [
    path("groups/", views.group_list, name="groups"),
    path("ask/<str:kind>/<path:name>/", asking_views.ask, name="ask"),
    path("requests/<uuid:request_id>/", asking_views.told, name="request"),
    path("groups/<path:name>/", views.group_detail, name="group"),
]
