"""This room pages lists by a signed cursor: stable under inserts, constant in cost at any depth."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.utils.encoding import escape_uri_path
from rest_framework.request import Request
from rest_framework.response import Response

from access.cursors import NotOurs, opened, sealed
from access.filters import DoesNotFit, Filter, number_filter, read_filters, text_filter
from access.rest.problems import Problem
from muster.kernel.error_codes import ErrorCode

DEFAULT_LIMIT = 100
LARGEST_LIMIT = 500
_LONGEST_CURSOR = 2048
_LIMIT = number_filter("limit", "Rows of a page.")
_CURSOR = text_filter("cursor", "`next` of the page before.", _LONGEST_CURSOR)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a client asked of a list: how many rows, after which key, with which filters.

    `said` are the filters as they stood in the address, `filters` what they mean; `of` names the list.
    """

    limit: int
    after: list[Any] | None
    filters: Mapping[str, Any]
    said: Mapping[str, str]
    of: Sequence[Any]


def page_request(request: Request, filters: Iterable[Filter]) -> PageRequest:
    """Read limit, cursor and the filters; an unknown or doubled parameter is 400, not ignored."""
    known = {one.name: one for one in (*filters, _LIMIT, _CURSOR)}
    for name, values in request.query_params.lists():
        if name not in known:
            raise _refused(f"Unknown parameter {name[:60]!r}.")
        if len(values) > 1:
            raise _refused(f"Parameter {name!r} is given twice.")
    try:
        asked = read_filters(request.query_params.dict(), known.values())
        limit, cursor = asked.pop("limit", DEFAULT_LIMIT), asked.pop("cursor", None)
        if not 1 <= limit <= LARGEST_LIMIT:
            raise DoesNotFit(f"limit must be a whole number from 1 to {LARGEST_LIMIT}.")
        said = {name: request.query_params[name] for name in asked}
        # The list is its address (a group's rebalances are not those of another) and its filters, which give
        # the order as well.
        of = [request.path.rstrip("/"), said]
        after = None if cursor is None else opened(cursor, of)
    except (DoesNotFit, NotOurs) as error:
        raise _refused(str(error)) from error
    return PageRequest(limit, after, asked, said, of)


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
    following = sealed(key(shown[-1]), page.of) if follows and shown else None
    response = Response({"items": [show(row) for row in shown], "next": following})
    if following:
        query = urlencode({**page.said, "limit": page.limit, "cursor": following})
        # `path` is decoded: a name with a question mark or a per cent sign is quoted again.
        address = request.build_absolute_uri(escape_uri_path(request.path))
        response["Link"] = f'<{address}?{query}>; rel="next"'
    return response


def _refused(detail: str) -> Problem:
    return Problem(400, detail, ErrorCode.INVALID_REQUEST)
