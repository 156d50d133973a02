"""This room renders reassignments: what moves now, what it waits for, and how those before ended."""

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.cursors import NotOurs, opened, sealed
from access.filters import text_filter
from access.grants import Operation
from access.pages import may, needs
from controller import copying, fingerprints, history, move_queries, standing
from controller.models import PLAN_PHASES
from controller.paging import asked_of, window
from runtime import database_clock

MOVES_OF_A_PAGE = 100
ENDED_OF_A_PAGE = 50
PLANS_SHOWN = 10
OF_MOVES = ("reassignments_wait", "throttle_too_low")
_ENDED = ["reassignments that ended"]


@require_safe
@needs(Operation.VIEW)
def reassignments(request: HttpRequest) -> HttpResponse:
    """How far is what moves, what does it wait for; then what ended, asked for last first."""
    here = standing.of(request)
    asked = asked_of(request, "/reassignments/", text_filter("after", "Where the page before ended.", 2048))
    try:
        after = tuple(opened(asked["after"], _ENDED)) if "after" in asked else None
    except NotOurs as error:
        raise BadRequest(f"{error} Begin at /reassignments/.") from error
    pages = window(asked, MOVES_OF_A_PAGE, here.moves.active)
    ended = move_queries.ended(ENDED_OF_A_PAGE + 1, after=after)
    last = ended[ENDED_OF_A_PAGE - 1] if len(ended) > ENDED_OF_A_PAGE else None
    topics = history.topics_there(move.topic_name for move in ended)
    copy = copying.of_all() if here.moves.moving else copying.NOTHING
    waiting_bytes = copying.waiting_bytes() if here.moves.waiting else 0
    context = {
        "section": "reassignments",
        "watch": fingerprints.CLUSTER,
        "rendered": here.fingerprint,
        "here": here,
        "counts": here.moves,
        "copy": copy,
        "ends_at": copy.ends_at(database_clock.now(), waiting_bytes),
        "waiting_bytes": waiting_bytes,
        "plans": move_queries.plans(PLANS_SHOWN, phases=PLAN_PHASES[:5]),
        "findings": [one for one in here.findings if one.kind in OF_MOVES],
        "moves": move_queries.active(pages.size, first=pages.first),
        "pages": pages,
        "may_operate": may(request, Operation.OPERATE),
        "ended": ended[:ENDED_OF_A_PAGE],
        "there": {move.id for move in ended if move.partition < topics.get(move.topic_name, 0)},
        "first": after is not None,
        "next": sealed([last.asked_version, last.asked_place], _ENDED) if last else "",
    }
    return render(request, "controller/reassignments.html", context)
