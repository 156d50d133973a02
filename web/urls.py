"""This room names every address of the pages, room by room."""

from django.urls import include, path, re_path

from web import health, journal_page, views
from web.errors import nothing_here

urlpatterns = [
    path("", views.overview, name="overview"),
    path("", include("access.urls")),
    path("", include("groups.urls")),
    path("", include("controller.urls")),
    path("journal/", journal_page.journal, name="journal"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    re_path(r"^api(?:/[\s\S]*)?$", nothing_here),
]
