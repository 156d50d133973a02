"""This room guards pages: a view says which operation it needs, a person without it is told so."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from access.grants import Operation, Role, role_may
from access.service import role_of

PageView = Callable[..., HttpResponse]

_READ = "_role"


def role_here(request: HttpRequest) -> Role | None:
    """The role of who asks for a page, read once for a request, as it is now."""
    if not hasattr(request, _READ):
        setattr(request, _READ, role_of(request.user))
    found: Role | None = getattr(request, _READ)
    return found


def may(request: HttpRequest, operation: Operation) -> bool:
    """True if the role of who asks for a page includes `operation`."""
    role = role_here(request)
    return role is not None and role_may(role, operation)


def needs(operation: Operation) -> Callable[[PageView], PageView]:
    """Let only people whose role includes `operation` see the page; others get 403 with the reason."""

    def guard(view: PageView) -> PageView:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not may(request, operation):
                raise PermissionDenied(f"This page needs a role that may {operation.value}.")
            return view(request, *args, **kwargs)

        return guarded

    return guard
