"""This room names every address of the pages, room by room."""

from django.urls import include, path, re_path

from web import health, views
from web.errors import nothing_here

urlpatterns = [
    path("", views.overview, name="overview"),
    path("", include("access.urls")),
    path("", include("groups.urls")),
    path("", include("controller.urls")),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    re_path(r"^api(?:/[\s\S]*)?$", nothing_here),
]
