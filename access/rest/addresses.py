"""This room gives REST addresses twice: without a slash at the end, and with one for those who type it."""

from typing import Any

from django.urls import URLPattern, path

from access.any_name import ANY_NAME


def both(route: str, view: Any, name: str) -> list[URLPattern]:
    """`route` ends without a slash; its alias with one comes first.

    A route that ends with a name that may hold slashes has no alias: `a/` is another group than `a`.
    """
    ends_with_a_name = route.rpartition("/")[2].startswith(f"<{ANY_NAME}:")
    alias = [] if ends_with_a_name else [path(f"{route}/", view)]
    return [*alias, path(route, view, name=name)]


def without_aliases(endpoints: list[Any]) -> list[Any]:
    """Of each address only the form without a slash goes into the OpenAPI document."""
    return [endpoint for endpoint in endpoints if not endpoint[0].endswith("/")]
