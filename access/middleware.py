"""This room ends sessions that are over: unused for half an hour, or twelve hours old."""

import time
from collections.abc import Callable

from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse

from access import sessions


class EndOldSessions:
    """Signs out a session that is over; an open page counts as use, by its live websocket."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated:
            now_ms = int(time.time() * 1000)
            if sessions.is_over(request.session, now_ms):
                logout(request)
            elif sessions.note_use(request.session, now_ms):
                sessions.keep_use(request.session)
        return self._get_response(request)
