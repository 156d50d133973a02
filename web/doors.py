"""This room is the outermost door of pages and REST: bounds first, then Django, and honest refusals."""

import json
import secrets
import time
from datetime import datetime
from functools import lru_cache

from django.conf import settings
from django.http import parse_cookie
from django.template.loader import render_to_string

from access.rest.problems import MEDIA_TYPE, RETRY_AFTER_S, SILENT_DATABASE, document
from web import silence
from web.bodies import Bodies, Crowded, Gone, TooLarge
from web.desks import Busy, Desks, Handle, Message, Receive, Scope, Send, Silent
from web.metrics import ANSWER_MS, ANSWERS, REFUSED
from web.middleware import CONTENT_SECURITY_POLICY
from web.pulse import Pulse
from web.themes import theme_in
from web.unanswered import fields_in, page_of

_WORDS = {
    "slow": (
        408,
        "The request was too slow",
        "It did not come whole. Nothing was changed.",
        "Send it again.",
    ),
    "large": (
        413,
        "The request is too large",
        "Nothing was changed.",
        "A form or a request holds 1 MiB: ask for less at a time.",
    ),
    "crowded": (
        503,
        "The request was too slow",
        "It was not read, because others need the memory. Nothing was changed.",
        "Send it again.",
    ),
    "busy": (
        503,
        "The page could not be read",
        "It took too long, or too many asked at once. Groups and brokers go on.",
        "Try again in a few seconds.",
    ),
    "silent": (503, "The page could not be read", SILENT_DATABASE, "Try again in a few seconds."),
}
_UNREAD = ("slow", "large", "crowded")
"""Refused before the whole body was here: the rest of it is not waited for."""

_PLAIN = ("/readyz", "/metrics")
"""Asked by programs that read a line."""

READ = ("GET", "HEAD")


class HttpDoor:
    """ASGI's HTTP: `/livez` is answered by the loop itself, everything else at a desk."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._desks: Desks | None = None
        self._bodies = Bodies()
        self._pulse = Pulse()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == "/livez":
            if scope["method"] not in READ:
                return await _say(send, 405, b"only GET and HEAD\n", "text/plain")
            # It must not wait for a database: who restarts a web process for an outage makes two of it.
            return await _say(send, 200, b"live\n", "text/plain")
        began, body = time.monotonic(), b""
        if path == "/readyz" and not await self._pulse.beats():
            return await _say(send, 503, b"the database does not answer\n", "text/plain")
        try:
            body = await self._bodies.read(scope, receive, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
            said = await self._at_a_desk(scope, body)
        except Gone:
            return None
        except TooLarge:
            said = refusal(path, "large", _theme(scope))
        except Silent:
            said = unanswered(scope, body, "silent")
        except Busy:
            said = unanswered(scope, body, "busy")
        except Crowded:
            REFUSED.labels("bodies").inc()
            said = refusal(path, "crowded", _theme(scope))
        except TimeoutError:
            said = refusal(path, "slow", _theme(scope))
        ANSWERS.labels(f"{said[0]['status'] // 100}xx").inc()
        ANSWER_MS.observe((time.monotonic() - began) * 1000)
        for message in said:
            await send(message)

    async def close(self) -> None:
        """End the threads."""
        if self._desks is not None:
            await self._desks.close()
        await self._pulse.close()

    async def _at_a_desk(self, scope: Scope, body: bytes) -> list[Message]:
        if self._desks is None:
            self._desks = Desks(self._handle, beats=self._pulse.beats)
        said = await self._desks.answer(scope, body)
        return said or unanswered(scope, body, "busy")


def is_rest(path: str) -> bool:
    """True for addresses whose refusals are problem documents."""
    return path == "/api" or path.startswith("/api/")


def refusal(path: str, why: str, theme: str = "") -> list[Message]:
    """An answer without Django, in the words and the shape that all refusals have."""
    request_id = secrets.token_hex(8)
    status, title, means, _ = _WORDS[why]
    if is_rest(path):
        body = json.dumps(document(status, f"{title}. {means}", request_id)).encode()
        return _messages(status, body, MEDIA_TYPE, request_id, is_unread=why in _UNREAD)
    if path in _PLAIN:
        return _messages(status, f"{means}\n".encode(), "text/plain", request_id, is_unread=why in _UNREAD)
    since = silence.since(means)
    body = _page(why, theme, since).replace(b"REQUEST-ID", request_id.encode())
    return _messages(status, body, "text/html; charset=utf-8", request_id, is_unread=why in _UNREAD)


def unanswered(scope: Scope, body: bytes, why: str) -> list[Message]:
    """An answer without Django to what may have been done meanwhile: a form is shown, to be sent again."""
    path = scope["path"]
    if scope.get("method", "GET") in READ or is_rest(path) or path in _PLAIN:
        return refusal(path, why, _theme(scope))
    request_id = secrets.token_hex(8)
    kind = _header(scope, b"content-type")
    means = SILENT_DATABASE if why == "silent" else "It took too long, or too many asked at once."
    fields = fields_in(kind, body)
    page = page_of(fields, path, means=means, request_id=request_id, theme=_theme(scope))
    return _messages(_WORDS[why][0], page.encode(), "text/html; charset=utf-8", request_id)


@lru_cache(maxsize=64)
def _page(why: str, theme: str, since: datetime | None) -> bytes:
    status, title, means, todo = _WORDS[why]
    words = {"title": title, "means": means, "todo": todo, "request_id": "REQUEST-ID"}
    # Of a body that was not read there is nothing to be asked for again by itself.
    told = {"again": status == 503, "asks": why not in _UNREAD, "since": since, "zone": settings.TIME_ZONE}
    where = {"cluster_name": settings.MUSTER_CLUSTER_NAME, "environment": settings.MUSTER_ENVIRONMENT}
    return render_to_string("error.html", {**words, **told, **where, "theme": theme}).encode()


def _theme(scope: Scope) -> str:
    return theme_in(parse_cookie(_header(scope, b"cookie").decode("latin-1")))


def _header(scope: Scope, wanted: bytes) -> bytes:
    found: bytes = next((value for name, value in scope["headers"] if name == wanted), b"")
    return found


async def _say(send: Send, status: int, body: bytes, kind: str) -> None:
    for message in _messages(status, body, kind, secrets.token_hex(8)):
        await send(message)


def _messages(
    status: int, body: bytes, kind: str, request_id: str, *, is_unread: bool = False
) -> list[Message]:
    headers = {
        "Content-Type": kind,
        "Content-Length": str(len(body)),
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Cache-Control": "private, no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Request-Id": request_id,
    }
    if status == 503:
        headers["Retry-After"] = RETRY_AFTER_S
    if status == 405:
        headers["Allow"] = ", ".join(READ)
    if is_unread:
        headers["Connection"] = "close"
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return [
        {"type": "http.response.start", "status": status, "headers": raw},
        {"type": "http.response.body", "body": body, "more_body": False},
    ]
