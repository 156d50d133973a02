"""This room renders plans: what each would move and cost, how far it is, what became of it."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from access.cursors import NotOurs, opened, sealed
from access.filters import number_filter, text_filter, word_filter
from access.grants import Operation
from access.pages import may, needs
from controller import catching_up, findings, fingerprints, move_queries, plan_progress, standing
from controller.models import PLAN_PHASES, STEP_STATES, Broker, Plan
from controller.paging import asked_of
from runtime import database_clock

PLANS_OF_A_PAGE = 50
STEPS_OF_A_PAGE = 100
_LISTED = ["plans"]

MAY: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Computing": (("plan-cancel", "Cancel", "It is computed no further."),),
    "Draft": (
        ("plan-approve", "Approve", "It may run then; nothing moves before somebody runs it."),
        ("plan-throttle", "Change its rate", "For moves that begin from now on."),
        ("plan-cancel", "Cancel", "Nothing has moved, and nothing will."),
    ),
    "Approved": (
        ("plan-run", "Run", "Partitions are moved as it says, a few at a time."),
        ("plan-throttle", "Change its rate", "For moves that begin from now on."),
        ("plan-cancel", "Cancel", "Nothing has moved, and nothing will."),
    ),
    "Running": (
        ("plan-pause", "Pause", "No more moves begin; those under way end."),
        ("plan-throttle", "Change its rate", "Moves under way obey at once."),
        ("plan-cancel", "Cancel", "It ends here; moves under way go on, or back."),
    ),
    "Paused": (
        ("plan-run", "Go on", "The next moves begin."),
        ("plan-throttle", "Change its rate", "Moves under way obey at once."),
        ("plan-cancel", "Cancel", "It ends here; moves under way go on, or back."),
    ),
    "Done": (("plan-undo", "Undo", "A plan takes back what it moved; it is reviewed like any other."),),
    "Cancelled": (("plan-undo", "Undo", "A plan takes back what it moved; it is reviewed like any other."),),
    "Failed": (),
}
"""By phase: the actions that may be asked, what their buttons say, what they do."""

NONE_LEFT = {
    "plan-pause": "No move is left to begin: it changes nothing now.",
    "plan-run": "No move is left to begin: it ends with those under way.",
}
"""What they do instead once each move was asked for."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one broker holds, and would hold once the plan is done."""

    broker_id: int
    replicas: int
    replicas_then: int
    first: int
    first_then: int
    takes: int
    sends: int


@require_safe
@needs(Operation.VIEW)
def plan_list(request: HttpRequest) -> HttpResponse:
    """Every plan, proposed last first."""
    here = standing.of(request)
    asked = asked_of(
        request,
        request.path,
        word_filter("phase", PLAN_PHASES, "Only those in this phase."),
        text_filter("after", "Where the page before ended.", 2048),
    )
    phase = asked.get("phase", "")
    of = [*_LISTED, phase]
    try:
        place = opened(asked["after"], of) if "after" in asked else None
    except NotOurs as error:
        raise BadRequest(f"{error} Begin at {request.path}.") from error
    after = (place[0], UUID(place[1])) if place else None
    rows = move_queries.plans(PLANS_OF_A_PAGE + 1, after=after, phases=[phase] if phase else ())
    last = rows[PLANS_OF_A_PAGE - 1] if len(rows) > PLANS_OF_A_PAGE else None
    context = {
        "section": "reassignments",
        "watch": fingerprints.CLUSTER,
        "rendered": here.fingerprint,
        "here": here,
        "plans": rows[:PLANS_OF_A_PAGE],
        "phase": phase,
        "phases": PLAN_PHASES,
        "first": after is not None,
        "next": sealed([last.proposed_version, str(last.id)], of) if last else "",
        "may_operate": may(request, Operation.OPERATE),
    }
    return render(request, "controller/plans.html", context)


@require_safe
@needs(Operation.VIEW)
def plan(request: HttpRequest, plan_id: UUID) -> HttpResponse:
    """One plan: what it would move, what that costs, how far it is, what may be done about it."""
    here = standing.of(request)
    row = move_queries.plan(plan_id)
    if row is None:
        raise Http404("no such plan")
    asked = asked_of(
        request,
        request.path,
        word_filter("state", STEP_STATES, "Only steps in this state."),
        number_filter("from", "Steps before those that are shown."),
    )
    state, first = asked.get("state", ""), asked.get("from", 0)
    counts = move_queries.step_counts(row)
    steps = move_queries.steps(plan_id, STEPS_OF_A_PAGE + 1, after=first - 1, state=state)
    may_operate = may(request, Operation.OPERATE)
    undoes = row.options.get("undoes")
    stalled = move_queries.stalled_of_plan(plan_id).moves if counts.asked else 0
    context = {
        "section": "reassignments",
        "watch": fingerprints.CLUSTER,
        "rendered": here.fingerprint,
        "here": here,
        "plan": row,
        "counts": counts,
        "stalled": stalled,
        "findings": findings.of_plan(plan_id, stalled) if counts.asked else [],
        "progress": plan_progress.read(row, counts, database_clock.now()),
        "too_slow": catching_up.of_row(row),
        "brokers": [Load(*one) for one in row.cost.get("brokers", ())],
        "left_out": row.cost.get("left_out", ()),
        "steps": steps[:STEPS_OF_A_PAGE],
        "state": state,
        "states": [
            (word, number)
            for word, number in zip(STEP_STATES, _counted(counts), strict=True)
            if number or word == state
        ],
        "first": first,
        "next": steps[STEPS_OF_A_PAGE].number if len(steps) > STEPS_OF_A_PAGE else 0,
        "uncordoned": uncordoned(row),
        "undoes": move_queries.plan(UUID(undoes)) if undoes else None,
        "undone_by": _undone_by(row),
        "actions": _actions(row, counts) if may_operate else (),
    }
    return render(request, "controller/plan.html", context)


def uncordoned(row: move_queries.PlanRow) -> list[int]:
    """The brokers that a plan drains on which new replicas are placed all the same."""
    if row.kind != "drain" or row.phase in ("Cancelled", "Failed"):
        return []
    drained = Broker.objects.filter(broker_id__in=row.options["brokers"], cordoned=False)
    return list(drained.order_by("broker_id").values_list("broker_id", flat=True))


def _undone_by(row: move_queries.PlanRow) -> Plan | None:
    """The last plan that takes back what this one moved, and was not given up."""
    if not row.is_over:
        return None
    found = Plan.objects.filter(kind="undo", options__undoes=str(row.id))
    return found.exclude(phase__in=("Cancelled", "Failed")).order_by("-proposed_version").first()


def _counted(counts: move_queries.StepCounts) -> tuple[int, ...]:
    return (
        counts.waiting,
        counts.asked,
        counts.done,
        counts.skipped,
        counts.cancelled,
        counts.failed,
    )


def _actions(row: move_queries.PlanRow, counts: move_queries.StepCounts) -> list[dict[str, Any]]:
    """What may be asked of it in its phase: address, button, what it does.

    What has moved nothing is not undone.
    """
    instead = {} if counts.waiting or row.phase == "Approved" else NONE_LEFT
    return [
        {
            "address": reverse("ask-plan", args=[kind, row.id]),
            "name": name,
            "does": instead.get(kind, does),
            "kind": kind,
        }
        for kind, name, does in MAY[row.phase]
        if kind != "plan-undo" or counts.done or counts.asked
    ]
