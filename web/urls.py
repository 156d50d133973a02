"""This room names every address of the pages, room by room."""

from django.urls import include, path

from web import health, views

urlpatterns = [
    path("", views.overview, name="overview"),
    path("", include("access.urls")),
    path("", include("groups.urls")),
    path("", include("controller.urls")),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]
