"""This room maps addresses to rooms: pages, REST under /api/v1/, the read-only admin."""

from importlib.util import find_spec

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path


def _mounted(prefix: str, module: str) -> list[URLResolver]:
    """For now, while rooms are being built at the same time: the door, once it exists."""
    there = find_spec(module.partition(".")[0]) is not None and find_spec(module) is not None
    return [path(prefix, include(module))] if there else []


urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    *_mounted("api/v1/", "web.rest_urls"),
    *_mounted("", "web.urls"),
]

if find_spec("web") is not None and find_spec("web.errors") is not None:
    handler400 = "web.errors.bad_request"
    handler403 = "web.errors.forbidden"
    handler404 = "web.errors.not_found"
    handler500 = "web.errors.server_error"
