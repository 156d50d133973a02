"""This room guards pages: a view says which operation it needs, a person without it is told so."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from access.grants import Operation
from access.service import user_may

PageView = Callable[..., HttpResponse]


def needs(operation: Operation) -> Callable[[PageView], PageView]:
    """Let only people whose role includes `operation` see the page; others get 403 with the reason."""

    def guard(view: PageView) -> PageView:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not user_may(request.user, operation):
                raise PermissionDenied(f"This page needs a role that may {operation.value}.")
            return view(request, *args, **kwargs)

        return guarded

    return guard
