"""This room ends sessions that are over, and asks who it is: a form is shown again after the door."""

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME, logout
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.encoding import escape_uri_path
from django.utils.http import urlencode

from access import sessions
from access.typed import typed_into, written_as_a_form
from runtime import database_clock

KEPT = "kept"
"""The door is told by this that what was typed comes back behind it (`yes`), or is lost (`no`)."""

_LONGEST_DOOR = 2_800
"""In characters of the address: a proxy may take 4 KiB for all headers of an answer, as nginx does."""


class EndOldSessions:
    """Signs out a session that is over; an open page counts as use, by its live websocket."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated:
            now_ms = int(database_clock.now().timestamp() * 1000)
            if sessions.is_over(request.session, now_ms):
                logout(request)
            elif sessions.note_use(request.session, now_ms):
                sessions.keep_use(request.session)
        return self._get_response(request)


class AskWhoItIs(LoginRequiredMiddleware):
    """Leads whoever is not signed in to the door; a form that comes meanwhile is shown again behind it.

    Nothing is done by that: it is filled in as it was, its consequences are shown and confirmed anew. What is
    too long for an address the page of the door holds itself.
    """

    def handle_no_permission(  # type: ignore[override]
        self, request: HttpRequest, view_func: Callable[..., HttpResponseBase]
    ) -> HttpResponse:
        if request.method != "POST":
            usual: HttpResponseRedirect = super().handle_no_permission(request, view_func)
            return usual if len(usual.url) <= _LONGEST_DOOR else HttpResponseRedirect(_short_of(request))
        if not request.POST.get("key"):
            # Not one of our forms, such as that which signs out: its address is no page to look at.
            return HttpResponseRedirect(settings.LOGIN_URL)
        typed = typed_into(request.POST)
        form = escape_uri_path(request.path)
        if not typed:
            door = _door({REDIRECT_FIELD_NAME: form})
            return HttpResponseRedirect(door if len(door) <= _LONGEST_DOOR else _short_of(request))
        written = written_as_a_form(typed)
        if not written:
            return HttpResponseRedirect(_short_of(request))
        door = _door({REDIRECT_FIELD_NAME: f"{form}?{written}", KEPT: "yes"})
        if len(door) <= _LONGEST_DOOR:
            return HttpResponseRedirect(door)
        page = {"next": form, "typed": written, "kept": "yes"}
        return render(request, "access/login.html", page, status=403)


def _short_of(request: HttpRequest) -> str:
    """The door, to which as much of the address is told as it bears, and that there was more."""
    door = _door({REDIRECT_FIELD_NAME: escape_uri_path(request.path), KEPT: "no"})
    return door if len(door) <= _LONGEST_DOOR else _door({KEPT: "no"})


def _door(said: dict[str, str]) -> str:
    return f"{settings.LOGIN_URL}?{urlencode(said)}"
