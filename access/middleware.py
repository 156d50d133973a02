"""This room ends sessions that nobody has used for half an hour."""

import time
from collections.abc import Callable

from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse

IDLE_MS = 1_800_000
_WRITE_EVERY_MS = 60_000
_KEY = "seen_ms"


class EndIdleSessions:
    """Signs out a session that was not used for IDLE_MS; an open page that reads its values counts as use."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated:
            now_ms = int(time.time() * 1000)
            seen_ms = request.session.get(_KEY, now_ms)
            if now_ms - seen_ms > IDLE_MS:
                logout(request)
            elif now_ms - seen_ms > _WRITE_EVERY_MS or _KEY not in request.session:
                request.session[_KEY] = now_ms
        return self._get_response(request)
