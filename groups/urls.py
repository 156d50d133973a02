"""This room names the addresses of the pages about groups; a group id may hold slashes."""

from django.urls import path

from groups import views

urlpatterns = [
    path("groups/", views.group_list, name="groups"),
    path("groups/<path:name>/", views.group_detail, name="group"),
]
