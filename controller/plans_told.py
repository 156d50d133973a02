"""This room says how REST tells plans: shapes with their examples, and what of the rows fills them."""

from dataclasses import asdict
from typing import Any, Final

from rest_framework import serializers

from access.rest.shapes import Int32Field, Int64Field, example
from controller import catching_up, move_queries, plan_progress
from controller.catching_up import SENDS, TAKES
from controller.models import PLAN_PHASES, STEP_STATES
from muster.messages.link.plans import PlanKind

KINDS: Final = [(kind.value, kind.value) for kind in PlanKind]


class StepCountsShape(serializers.Serializer[Any]):
    """How many steps are where, and the bytes that they copy."""

    waiting = Int32Field()
    asked = Int32Field()
    done = Int32Field()
    skipped = Int32Field()
    cancelled = Int32Field()
    failed = Int32Field()
    bytes = Int64Field()
    bytes_done = Int64Field()
    bytes_waiting = Int64Field()


class PlanProgressShape(serializers.Serializer[Any]):
    """How far a plan is in bytes. `rate`: bytes a second now, null: no broker has said yet; 0: none come.

    `silent`: new replicas under way of which their brokers have said nothing. `ends_at` is a guess.
    """

    percent = Int32Field()
    copied_bytes = Int64Field()
    to_copy_bytes = Int64Field()
    rate = Int64Field(allow_null=True)
    average_rate = Int64Field(allow_null=True)
    stalled_since = serializers.DateTimeField(allow_null=True)
    silent = Int32Field()
    ends_at = serializers.DateTimeField(allow_null=True)


class StalledShape(serializers.Serializer[Any]):
    """Moves of a plan that cannot end before somebody comes back, `since` the first of them could not.

    `brokers`: those without a session to which they lead. `leaderless`: how many have nobody to copy from.
    """

    moves = Int32Field()
    since = serializers.DateTimeField(allow_null=True)
    brokers = serializers.ListField(child=Int32Field())
    leaderless = Int32Field()


class TooSlowShape(serializers.Serializer[Any]):
    """A broker that takes or sends copies no faster than producers write to these partitions: a rate too low.

    `never`: one of them alone gets more than the throttle lets through, so that its copy never ends.
    """

    broker = Int32Field()
    side = serializers.ChoiceField(choices=[(side, side) for side in (TAKES, SENDS)])
    throttle = Int64Field()
    produced = Int64Field()
    partitions = Int32Field()
    never = serializers.BooleanField()


_PLAN: Final = {
    "plan": "0192f0c2-7d0e-7c3a-9a44-6c1f2f0b8a11",
    "kind": "drain",
    "options": {"kind": "drain", "brokers": [3]},
    "phase": "Draft",
    "throttle": 50_000_000,
    "at_a_time": 500,
    "step_count": 2,
    "proposed_by": "mira",
    "reason": "broker 3 is to be replaced",
    "changed_by": "",
    "why": "",
    "version": 88020,
    "proposed_at": "2026-11-21T03:12:41Z",
    "approved_at": None,
    "started_at": None,
    "ended_at": None,
}


@example(**_PLAN)
class ListedPlanShape(serializers.Serializer[Any]):
    """A plan in brief. `why`: why it failed, or what was said with its last change, by `changed_by`.

    `options` are those of its proposal; in a list without `partitions`, of which one plan may name thousands.
    """

    plan = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=KINDS)
    options = serializers.DictField()
    phase = serializers.ChoiceField(choices=[(phase, phase) for phase in PLAN_PHASES])
    throttle = Int64Field()
    at_a_time = Int32Field()
    step_count = Int32Field()
    proposed_by = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    changed_by = serializers.CharField(allow_blank=True)
    why = serializers.CharField(allow_blank=True)
    version = Int64Field()
    proposed_at = serializers.DateTimeField()
    approved_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


@example(
    **_PLAN,
    cost={
        "partitions": 2,
        "bytes": 8_589_934_592,
        "replicas_added": 2,
        "leaders_moved": 1,
        "unknown_sizes": 0,
        "busiest_bytes": 4_294_967_296,
        "busiest_broker": 1,
        "hours": 0.024,
        "brokers": [[3, 2, 0, 1, 0, 0, 4_294_967_296], [4, 0, 2, 0, 1, 8_589_934_592, 0]],
        "left_out": [{"why": "another reassignment moves it", "number": 1, "names": ["flights-5"]}],
    },
    too_slow=[
        {
            "broker": 4,
            "side": "takes",
            "throttle": 50_000_000,
            "produced": 61_000_000,
            "partitions": 2,
            "never": False,
        }
    ],
    steps={
        "waiting": 2,
        "asked": 0,
        "done": 0,
        "skipped": 0,
        "cancelled": 0,
        "failed": 0,
        "bytes": 8_589_934_592,
        "bytes_done": 0,
        "bytes_waiting": 8_589_934_592,
    },
    progress={
        "percent": 0,
        "copied_bytes": 0,
        "to_copy_bytes": 8_589_934_592,
        "rate": None,
        "average_rate": None,
        "stalled_since": None,
        "silent": 0,
        "ends_at": None,
    },
    stalled={"moves": 0, "since": None, "brokers": [], "leaderless": 0},
)
class PlanShape(ListedPlanShape):
    """A plan, its cost and its steps counted.

    `cost` is empty until it was computed. Each of its `brokers`: id, replicas before and after, partitions
    that it stands first for before and after, bytes that it takes, and that it sends. `hours`: what the
    busiest broker needs at the rate as it was proposed. `too_slow`: where its throttle is not above what
    producers write now: empty if it is, or the plan is over.
    """

    cost = serializers.DictField()
    too_slow = TooSlowShape(many=True)
    steps = StepCountsShape()
    progress = PlanProgressShape()
    stalled = StalledShape()


@example(
    number=0,
    topic="flights",
    topic_id="4f6c1c57-58a0-4d1c-8b53-6b3a0f5b8f11",
    partition=5,
    origin=[3, 1, 2],
    target=[4, 1, 2],
    added=[4],
    removed=[3],
    size_bytes=4_294_967_296,
    state="Waiting",
    why="",
    waits_for=[],
    leaderless=False,
    stalled_since=None,
)
class PlanStepShape(serializers.Serializer[Any]):
    """One step: replicas as they were reviewed, and where they go; `why` it was skipped or ended early.

    Its move cannot end before the brokers in `waits_for` come back, or while it is `leaderless`: nobody is
    there to copy from. `stalled_since`: since when one of both holds, or nothing comes; null: none does.
    """

    number = Int32Field()
    topic = serializers.CharField()
    topic_id = serializers.UUIDField()
    partition = Int32Field()
    origin = serializers.ListField(child=Int32Field())
    target = serializers.ListField(child=Int32Field())
    added = serializers.ListField(child=Int32Field())
    removed = serializers.ListField(child=Int32Field())
    size_bytes = Int64Field(allow_null=True)
    state = serializers.ChoiceField(choices=[(state, state) for state in STEP_STATES])
    why = serializers.CharField(allow_blank=True)
    waits_for = serializers.ListField(child=Int32Field())
    leaderless = serializers.BooleanField()
    stalled_since = serializers.DateTimeField(allow_null=True)


def plan_listed(row: move_queries.PlanRow) -> dict[str, Any]:
    """A plan in brief as REST tells it."""
    return {
        "plan": row.id,
        "kind": row.kind,
        "options": row.options,
        "phase": row.phase,
        "throttle": row.throttle,
        "at_a_time": row.at_a_time,
        "step_count": row.step_count,
        "proposed_by": row.proposed_by,
        "reason": row.reason,
        "changed_by": row.changed_by,
        "why": row.why,
        "version": row.version,
        "proposed_at": row.proposed_at,
        "approved_at": row.approved_at,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
    }


def plan_shown(
    row: move_queries.PlanRow, counts: move_queries.StepCounts, progress: plan_progress.Progress
) -> dict[str, Any]:
    """A plan as REST tells it."""
    stalled = move_queries.stalled_of_plan(row.id) if counts.asked else move_queries.Stalled()
    return {
        **plan_listed(row),
        "cost": row.cost,
        "too_slow": catching_up.told(catching_up.of_row(row)),
        "steps": asdict(counts),
        "progress": plan_progress.told(progress),
        "stalled": asdict(stalled),
    }


def step_told(row: move_queries.StepRow) -> dict[str, Any]:
    """A step as REST tells it, with what its move waits for while that is under way."""
    move = row.move
    still = None
    if move is not None:
        still = move.waits_since if move.stalled else move.copying.stalled_since
    return {
        "number": row.number,
        "topic": row.topic_name,
        "topic_id": row.topic_id,
        "partition": row.partition,
        "origin": row.origin,
        "target": row.target,
        "added": row.added,
        "removed": row.removed,
        "size_bytes": row.size_bytes,
        "state": row.state,
        "why": row.why,
        "waits_for": move.waits_for if move is not None else [],
        "leaderless": move is not None and move.leaderless,
        "stalled_since": still,
    }
