"""This room pages lists by a signed cursor: stable under inserts, constant in cost at any depth."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.core import signing
from django.utils.encoding import escape_uri_path
from rest_framework.request import Request
from rest_framework.response import Response

from access.rest.problems import Problem
from muster.kernel.error_codes import ErrorCode

DEFAULT_LIMIT = 100
LARGEST_LIMIT = 500
LONGEST_FILTER = 249
"""Longest text of a filter, in characters: Kafka's bound for names."""

_SALT = "muster.cursor"
_LONGEST_CURSOR = 2048


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a client asked of a list: how many rows, after which key, with which filters."""

    limit: int
    after: list[Any] | None
    filters: Mapping[str, str]


def make_cursor(after: Sequence[Any], filters: Mapping[str, str]) -> str:
    """An opaque text for the row after which the next page begins; bound to the filters it was made with."""
    return signing.dumps({"k": list(after), "f": _fingerprint(filters)}, salt=_SALT, compress=True)


def read_cursor(cursor: str, filters: Mapping[str, str]) -> list[Any]:
    """The key inside a cursor. Raises Problem 400 if it is not ours or belongs to other filters."""
    if len(cursor) > _LONGEST_CURSOR:
        raise Problem(400, "The cursor is not one of ours.", ErrorCode.INVALID_REQUEST)
    try:
        inside = signing.loads(cursor, salt=_SALT)
    except signing.BadSignature as error:
        raise Problem(400, "The cursor is not one of ours.", ErrorCode.INVALID_REQUEST) from error
    if inside["f"] != _fingerprint(filters):
        text = "The cursor belongs to other filters. Begin without one."
        raise Problem(400, text, ErrorCode.INVALID_REQUEST)
    return list(inside["k"])


def page_request(request: Request, allowed: Sequence[str]) -> PageRequest:
    """Read limit, cursor and the allowed filters; an unknown or doubled parameter is 400, not ignored."""
    for name in request.query_params:
        if name not in allowed and name not in ("limit", "cursor"):
            raise Problem(400, f"Unknown parameter {name[:60]!r}.", ErrorCode.INVALID_REQUEST)
        if len(request.query_params.getlist(name)) > 1:
            raise Problem(400, f"Parameter {name!r} is given twice.", ErrorCode.INVALID_REQUEST)
        if name != "cursor" and len(request.query_params[name]) > LONGEST_FILTER:
            raise Problem(400, f"Parameter {name!r} is too long.", ErrorCode.INVALID_REQUEST)
        if "\x00" in request.query_params[name]:
            raise Problem(400, f"Parameter {name!r} holds a zero byte.", ErrorCode.INVALID_REQUEST)
    filters = {name: request.query_params[name] for name in allowed if name in request.query_params}
    cursor = request.query_params.get("cursor")
    return PageRequest(
        _limit(request.query_params.get("limit")),
        read_cursor(cursor, filters) if cursor is not None else None,
        filters,
    )


def page_response(
    request: Request,
    page: PageRequest,
    rows: Sequence[Any],
    key: Callable[[Any], Sequence[Any]],
    show: Callable[[Any], Any],
    *,
    more: bool | None = None,
) -> Response:
    """Answer `limit` of the given rows; one row more than `limit`, or `more`, says that a page follows."""
    shown = rows[: page.limit]
    follows = len(rows) > page.limit if more is None else more
    following = make_cursor(key(shown[-1]), page.filters) if follows and shown else None
    response = Response({"items": [show(row) for row in shown], "next": following})
    if following:
        query = urlencode({**page.filters, "limit": page.limit, "cursor": following})
        # `path` is decoded: a name with a question mark or a per cent sign is quoted again.
        address = request.build_absolute_uri(escape_uri_path(request.path))
        response["Link"] = f'<{address}?{query}>; rel="next"'
    return response


def whole_number(filters: Mapping[str, str], name: str) -> int | None:
    """The filter `name` as a whole number of at most 31 bits; None if absent. Raises Problem 400."""
    text = filters.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31):
        raise Problem(400, f"{name} must be a whole number from 0.", ErrorCode.INVALID_REQUEST)
    return int(text)


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= LARGEST_LIMIT):
        text_of_refusal = f"limit must be a whole number from 1 to {LARGEST_LIMIT}."
        raise Problem(400, text_of_refusal, ErrorCode.INVALID_REQUEST)
    return int(text)


def _fingerprint(filters: Mapping[str, str]) -> str:
    return json.dumps(sorted(filters.items()))
