"""This room renders brokers: the list of all, and one whole, with what it holds, leads and is moved."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.filters import text_filter, word_filter
from access.grants import Operation
from access.pages import may, needs
from controller import conditions, findings, fingerprints, move_queries, queries, standing
from controller.journal import turns_of_broker
from controller.paging import asked_of, window

BROKERS_OF_A_PAGE = 100
PARTITIONS_OF_A_PAGE = 100
MOVES_SHOWN = 20
LOGS_SHOWN = 100
TURNS_SHOWN = 8

SHOWS: Final[dict[str, Callable[[queries.BrokerRow], bool]]] = {
    "all": lambda row: True,
    "attention": lambda row: row.troubled,
    "fenced": lambda row: row.attention,
    "out": lambda row: row.out_of_sync > 0,
    "disk": lambda row: row.short_since is not None,
    "logs": lambda row: row.offline_logs + row.damaged_logs > 0,
    "cordoned": lambda row: row.broker.cordoned,
}
_SHOWN: Final = {
    "all": "All",
    "attention": "Needs attention",
    "fenced": "Fenced",
    "out": "Out of sync",
    "disk": "Disk full",
    "logs": "Logs in trouble",
    "cordoned": "Cordoned",
}
SORTS: Final[dict[str, Callable[[queries.BrokerRow], Any]]] = {
    "id": lambda row: row.broker.broker_id,
    "leaders": lambda row: (-row.leaders, row.broker.broker_id),
    "replicas": lambda row: (-row.replicas, row.broker.broker_id),
    "size": lambda row: (row.size_bytes is None, -(row.size_bytes or 0), row.broker.broker_id),
    "disk": lambda row: (row.disk_bytes is None, row.disk_bytes or 0, row.broker.broker_id),
    "out": lambda row: (-row.out_of_sync, row.broker.broker_id),
}
"""The largest first, of disks the fullest; what is not known stands last."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that the list may be sorted by: its address, and how it is sorted by it now."""

    address: str
    sorted: str


@require_safe
@needs(Operation.VIEW)
def broker_list(request: HttpRequest) -> HttpResponse:
    """A page of 100 brokers as the address filters and sorts them; by id, if it does not say."""
    here = standing.of(request)
    asked = asked_of(
        request,
        "/brokers/",
        text_filter("q", "Id, rack or address contains."),
        word_filter("show", SHOWS, "Only such brokers."),
        word_filter("sort", SORTS, "What the list is ordered by."),
    )
    contains, show, sort = asked.get("q", "").lower(), asked.get("show", "all"), asked.get("sort", "id")
    found = [row for row in here.brokers if SHOWS[show](row) and _says(row, contains)]
    found.sort(key=SORTS[sort])
    said: dict[str, Any] = {name: asked[name] for name in ("q", "show", "sort") if name in asked}
    pages = window(asked, BROKERS_OF_A_PAGE, len(found), **said)
    context = {
        "section": "cluster",
        "watch": fingerprints.CLUSTER,
        "rendered": here.fingerprint,
        "here": here,
        "rows": found[pages.first : pages.last],
        "pages": pages,
        "contains": asked.get("q", ""),
        "show": show,
        "sort": sort,
        "sorts": {name: _column(name, sort, said) for name in SORTS},
        "shows": [(word, name, sum(map(SHOWS[word], here.brokers))) for word, name in _SHOWN.items()],
        "may_operate": may(request, Operation.OPERATE),
    }
    return render(request, "controller/brokers.html", context)


def _column(name: str, sort: str, said: dict[str, Any]) -> Column:
    query = {**said, "sort": "" if name == "id" else name}
    address = "?" + urlencode({one: value for one, value in query.items() if value})
    return Column(address, "" if name != sort else "ascending" if name in ("id", "disk") else "descending")


def _says(row: queries.BrokerRow, text: str) -> bool:
    broker = row.broker
    told = (str(broker.broker_id), broker.rack.lower(), str(broker.endpoints.get("client", "")).lower())
    return not text or any(text in one for one in told)


@require_safe
@needs(Operation.VIEW)
def broker(request: HttpRequest, broker_id: int) -> HttpResponse:
    """One broker: is it live, what does it hold and lead, what of it is not in sync, what moves."""
    here = standing.of(request)
    row = next((row for row in here.brokers if row.broker.broker_id == broker_id), None)
    if row is None:
        raise Http404("no such broker")
    asked = asked_of(request, request.path, word_filter("show", queries.ROLES, "Only such partitions."))
    show = asked.get("show", "all")
    counts = dict(zip(queries.ROLES, queries.count_on(here.live, broker_id), strict=True))
    pages = window(asked, PARTITIONS_OF_A_PAGE, counts[show], show=asked.get("show", ""))
    moves = move_queries.active(MOVES_SHOWN + 1, broker_id=broker_id)
    context = {
        "section": "cluster",
        "watch": fingerprints.CLUSTER,
        "rendered": here.fingerprint,
        "here": here,
        "row": row,
        "broker": row.broker,
        "counts": counts,
        "under_replicated": queries.under_replicated_led_by(here.live, broker_id),
        "findings": findings.of_broker(row, here.live, here.health),
        "partitions": here.with_logs(
            queries.partitions_on(here.live, broker_id, show, pages.first, pages.size)
        ),
        "logs": conditions.logs(broker_id=broker_id, limit=LOGS_SHOWN),
        "throttled": conditions.throttled(row.condition) if row.state == queries.LIVE else [],
        "pages": pages,
        "show": show,
        "shows": [
            ("all", "All", counts["all"]),
            ("leads", "Leads", counts["leads"]),
            ("out", "Out of sync", counts["out"]),
            ("moves", "Moves", counts["moves"]),
        ],
        "moves": moves[:MOVES_SHOWN],
        "more_moves": len(moves) > MOVES_SHOWN,
        "may_operate": may(request, Operation.OPERATE),
        "turns": turns_of_broker(broker_id, TURNS_SHOWN),
    }
    return render(request, "controller/broker.html", context)
