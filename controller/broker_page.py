"""This room renders brokers: the list of all, and one whole, with what it holds, leads and is moved."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.filters import word_filter
from access.grants import Operation
from access.pages import needs
from access.service import user_may
from controller import conditions, findings, fingerprints, move_queries, queries, standing
from controller.journal import turns_of_broker
from controller.paging import asked_of, window

PARTITIONS_OF_A_PAGE = 100
MOVES_SHOWN = 20
LOGS_SHOWN = 100
TURNS_SHOWN = 8


@require_safe
@needs(Operation.VIEW)
def broker_list(request: HttpRequest) -> HttpResponse:
    """Every broker in the order of its id."""
    here = standing.of(request)
    context = {
        "section": "cluster",
        "watch": fingerprints.CLUSTER,
        "rendered": here.fingerprint,
        "here": here,
    }
    return render(request, "controller/brokers.html", context)


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
        "findings": findings.of_broker(row, here.health),
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
        "may_operate": user_may(request.user, Operation.OPERATE),
        "turns": turns_of_broker(broker_id, TURNS_SHOWN),
    }
    return render(request, "controller/broker.html", context)
