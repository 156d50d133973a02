"""This room gives each REST address twice: without a slash at its end, and with one for those who type it."""

from typing import Any

from django.urls import URLPattern, path


def both(route: str, view: Any, name: str) -> list[URLPattern]:
    """`route` ends without a slash; the alias with one comes first, so that ids with slashes keep working."""
    return [path(f"{route}/", view), path(route, view, name=name)]


def without_aliases(endpoints: list[Any]) -> list[Any]:
    """Of each address only the form without a slash goes into the OpenAPI document."""
    return [endpoint for endpoint in endpoints if not endpoint[0].endswith("/")]
