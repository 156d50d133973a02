"""This room keeps a form that nobody answered: it is shown again, to be sent as it was."""

from typing import Final

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.http import QueryDict
from django.template.loader import render_to_string

from web import silence

KEY: Final = "key"
"""The field by which a form that is sent twice is carried out once (runtime.requests)."""

_KIND: Final = b"application/x-www-form-urlencoded"
_KNOWN_ONCE: Final = "Whether it was taken is not known. Sent again as it is, it is done once."
_LOST: Final = "Whether it was done is not known. Look at the page that it is about before you send it again."
_AT_THE_DOOR: Final = (
    "You may not be signed in. Go back and sign in again: what the door has kept is still there."
)

Fields = list[tuple[str, str]]


def fields_of(posted: QueryDict) -> Fields:
    """What a form stated, in its order; empty unless it may be sent twice without being done twice."""
    return [(name, text) for name, said in posted.lists() for text in said] if posted.get(KEY) else []


def fields_in(content_type: bytes, body: bytes) -> Fields:
    """The same, of a body that nobody has read."""
    if content_type.partition(b";")[0].strip().lower() != _KIND:
        return []
    try:
        return fields_of(QueryDict(body, encoding="utf-8"))
    except (SuspiciousOperation, ValueError):
        return []


def page_of(
    fields: Fields, path: str, *, means: str, request_id: str, theme: str = "", asks: bool = True
) -> str:
    """The page about a form without an answer, which shows it again; `means` says why there is none.

    `path` is the address that it was sent to. If it `asks`, it says when pages are answered again.
    """
    todo = _AT_THE_DOOR if path == settings.LOGIN_URL else _KNOWN_ONCE if fields else _LOST
    words = {
        "title": "What you sent was not answered",
        "means": means,
        "todo": todo,
        "again": False,
        "asks": asks and bool(fields),
        "since": silence.since(means),
        "zone": settings.TIME_ZONE,
        "fields": fields,
        "request_id": request_id,
        "cluster_name": settings.MUSTER_CLUSTER_NAME,
        "environment": settings.MUSTER_ENVIRONMENT,
        "theme": theme,
    }
    return render_to_string("error.html", words)
