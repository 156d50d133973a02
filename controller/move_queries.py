"""This room reads reassignments and plans for people: what is on its way, waits, or how it ended."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from controller.copying import NOTHING, Copying, of_moves
from controller.models import NO_LEADER, PLAN_PHASES, STEP_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One partition on its way from `origin` to `target`, or how that ended.

    `leader`, `isr` and `adding` are those of its row while it is on its way, `copying` says how far it is.
    `copied_bytes`: how much was copied when it ended, None: nobody said.
    """

    id: UUID
    topic_id: UUID
    topic_name: str
    partition: int
    origin: Sequence[int]
    target: Sequence[int]
    phase: str
    principal: str
    reason: str
    asked_version: int
    asked_place: int
    asked_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    leader: int | None
    isr: Sequence[int] | None
    adding: Sequence[int] | None
    waits_for: Sequence[int]
    waits_since: datetime | None
    throttle: int
    copied_bytes: int | None
    plan_step: int
    copying: Copying = NOTHING

    @property
    def name(self) -> str:
        """`flights-5`."""
        return f"{self.topic_name}-{self.partition}"

    @property
    def length_ms(self) -> float | None:
        """How long it took; None: it has not ended, or never began."""
        if self.ended_at is None or self.started_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds() * 1000

    @property
    def came(self) -> int:
        """How many of the new replicas are in sync."""
        return len(set(self.adding or ()) & set(self.isr or ()))

    @property
    def comes(self) -> int:
        """How many new replicas there are to be."""
        return len(self.adding or ())

    @property
    def leaderless(self) -> bool:
        """Nobody is there to copy from."""
        return self.phase == "InProgress" and self.leader == NO_LEADER

    @property
    def stalled(self) -> bool:
        """It cannot end before somebody comes back."""
        return self.leaderless or (self.phase == "InProgress" and bool(self.waits_for))


# `waits_for`: new replicas that are not in sync and whose broker has no session; nothing is copied to them.
_MOVES = f"""
    SELECT move.id, move.topic_id, move.topic_name, move.partition, move.origin, move.target, move.phase,
           move.principal, move.reason, move.asked_version, move.asked_place,
           move.asked_at, move.started_at, move.ended_at,
           move.throttle, move.copied_bytes, move.plan_step, held.leader, held.isr, held.adding,
           waits.waits_for,
           CASE WHEN held.leader = {NO_LEADER} THEN held.changed_at
                ELSE GREATEST(move.started_at, waits.since) END AS waits_since
    FROM reassignment AS move
    LEFT JOIN partition AS held ON held.topic_id = move.topic_id AND held.partition = move.partition
        AND move.phase IN ('Init', 'InProgress')
    CROSS JOIN LATERAL (
        SELECT COALESCE(array_agg(broker_id ORDER BY broker_id), '{{}}') AS waits_for,
               min(changed_at) AS since
        FROM broker
        WHERE broker.fenced AND broker_id = ANY (held.adding) AND broker_id <> ALL (held.isr)) AS waits
"""


def active(limit: int, *, topic_id: Any = None, broker_id: int | None = None, first: int = 0) -> list[Move]:
    """Those asked for or under way, of all, of a topic, or to and from a broker, in their order."""
    asked = ["phase IN ('Init', 'InProgress')"]
    if topic_id is not None:
        asked.append("move.topic_id = %(topic_id)s")
    if broker_id is not None:
        asked.append(
            "%(broker)s = ANY (move.origin || move.target)"
            " AND (%(broker)s = ANY (move.origin)) <> (%(broker)s = ANY (move.target))"
        )
    statement = f"""{_MOVES} WHERE {" AND ".join(asked)}
        ORDER BY move.asked_version, move.asked_place OFFSET %(first)s LIMIT %(limit)s"""
    return _moves(statement, {"topic_id": topic_id, "broker": broker_id, "limit": limit, "first": first})


@dataclass(frozen=True, slots=True)
class MoveCounts:
    """How many partitions are on their way, how many wait for room, and how many for a broker or a leader."""

    moving: int
    waiting: int
    stalled: int
    comes: int
    came: int
    since: datetime | None
    stalled_since: datetime | None

    @property
    def active(self) -> int:
        return self.moving + self.waiting


_STALLED = f"phase = 'InProgress' AND (leader = {NO_LEADER} OR cardinality(waits_for) > 0)"
_COUNTS = f"""
    WITH moves AS MATERIALIZED ({_MOVES} WHERE phase IN ('Init', 'InProgress'))
    SELECT count(*) FILTER (WHERE phase = 'InProgress')::int, count(*) FILTER (WHERE phase = 'Init')::int,
           count(*) FILTER (WHERE {_STALLED})::int, COALESCE(sum(cardinality(adding)), 0)::int,
           COALESCE(sum((SELECT count(*) FROM unnest(adding) AS new WHERE new = ANY (isr))), 0)::int,
           min(asked_at), min(waits_since) FILTER (WHERE {_STALLED})
    FROM moves
"""


def counts() -> MoveCounts:
    """What is on its way now, counted."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS)
        return MoveCounts(*cursor.fetchone())


@dataclass(frozen=True, slots=True)
class Stalled:
    """How many moves of a plan cannot end before somebody comes back, since the first of them could not.

    `brokers`: those without a session to which they lead; `leaderless`: how many have nobody to copy from.
    """

    moves: int = 0
    since: datetime | None = None
    brokers: Sequence[int] = ()
    leaderless: int = 0


def stalled_of_plan(plan_id: UUID) -> Stalled:
    """Those of a plan that cannot end before somebody comes back, counted."""
    statement = f"""
        WITH moves AS MATERIALIZED (
            SELECT * FROM ({_MOVES} WHERE phase = 'InProgress' AND plan_id = %(plan)s) AS moves
            WHERE {_STALLED})
        SELECT count(*)::int, min(waits_since),
               ARRAY(SELECT DISTINCT broker_id FROM moves, unnest(waits_for) AS broker_id ORDER BY broker_id),
               count(*) FILTER (WHERE leader = {NO_LEADER})::int
        FROM moves"""
    with connection.cursor() as cursor:
        cursor.execute(statement, {"plan": plan_id})
        return Stalled(*cursor.fetchone())


def stalled(limit: int, plan_id: UUID | None = None) -> list[Move]:
    """Those of a plan, or of all, that cannot end before somebody comes back, what waits longest first."""
    of_plan = "" if plan_id is None else "AND plan_id = %(plan)s"
    statement = f"""
        SELECT * FROM ({_MOVES} WHERE phase = 'InProgress' {of_plan}) AS moves WHERE {_STALLED}
        ORDER BY waits_since, topic_name, partition LIMIT %(limit)s"""
    return _moves(statement, {"limit": limit, "plan": plan_id})


def ended(limit: int, *, after: tuple[int, int] | None = None, topic_id: Any = None) -> list[Move]:
    """Those that ended, asked for last first, after the one of this turn and place."""
    asked = ["phase NOT IN ('Init', 'InProgress')"]
    if topic_id is not None:
        asked.append("move.topic_id = %(topic_id)s")
    if after is not None:
        asked.append("(-asked_version, asked_place) > (-%(version)s::bigint, %(place)s::int)")
    statement = f"""{_MOVES} WHERE {" AND ".join(asked)}
        ORDER BY move.asked_version DESC, move.asked_place LIMIT %(limit)s"""
    version, place = after or (0, 0)
    return _moves(statement, {"limit": limit, "topic_id": topic_id, "version": version, "place": place})


def _moves(statement: str, values: dict[str, Any]) -> list[Move]:
    found = [Move(**row) for row in _named(statement, values)]
    far = of_moves([move.id for move in found if move.comes])
    return [replace(move, copying=far[move.id]) if move.id in far else move for move in found]


# ---------------------------------------------------------------------------------- plans


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """A stored plan without its steps: what it is for, where it stands, what it costs, who decided what.

    `cost` is empty until it was computed: see controller.core.proposals.Cost. `why`: why it failed, or what
    was said with the last change.
    """

    id: UUID
    kind: str
    options: dict[str, Any]
    phase: str
    throttle: int
    at_a_time: int
    step_count: int
    cost: dict[str, Any]
    proposed_by: str
    reason: str
    changed_by: str
    why: str
    version: int
    proposed_version: int
    proposed_at: datetime
    approved_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def is_over(self) -> bool:
        return self.phase in PLAN_PHASES[-3:]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """How many steps of a plan are where, and what they copy: all, those that are done, those that wait."""

    waiting: int
    asked: int
    done: int
    skipped: int
    cancelled: int
    failed: int
    bytes: int
    bytes_done: int
    bytes_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One step: the replicas as they were reviewed, where they go, what became of that.

    `move`: what it asked for, while that is under way.
    """

    number: int
    topic_id: UUID
    topic_name: str
    partition: int
    origin: Sequence[int]
    target: Sequence[int]
    size_bytes: int | None
    state: str
    why: str
    move: Move | None = None

    @property
    def name(self) -> str:
        """`flights-5`."""
        return f"{self.topic_name}-{self.partition}"

    @property
    def added(self) -> list[int]:
        return [broker_id for broker_id in self.target if broker_id not in self.origin]

    @property
    def removed(self) -> list[int]:
        return [broker_id for broker_id in self.origin if broker_id not in self.target]


_PLANS = """
    SELECT id, kind, {options} AS options, phase, throttle, at_a_time, step_count, cost, proposed_by, reason,
           changed_by, why, version, proposed_version, proposed_at, approved_at, started_at, ended_at
    FROM plan"""
_ONE_PLAN = f"{_PLANS.format(options='options')} WHERE id = %(plan)s"
_LISTED_PLANS = _PLANS.format(options="options - 'partitions'")
# What a step copies: what its move did; before that a log, as it was reviewed, for each new replica.
_COPIED = """COALESCE(
    ended.copied_bytes,
    size_bytes * (SELECT count(*) FROM unnest(target) AS new WHERE new <> ALL (origin)),
    0)"""
_LAST_VERSION = 2**63 - 1
_STEP_COUNTS = f"""
    SELECT {", ".join(f"count(*) FILTER (WHERE state = '{state}')::int" for state in STEP_STATES)},
           COALESCE(sum(copied), 0)::bigint, COALESCE(sum(copied) FILTER (WHERE state = 'Done'), 0)::bigint,
           COALESCE(sum(copied) FILTER (WHERE state = 'Waiting'), 0)::bigint
    FROM (
        SELECT state, {_COPIED} AS copied FROM plan_step LEFT JOIN (
            SELECT plan_step, copied_bytes FROM reassignment
            WHERE plan_id = %(plan)s AND phase = 'Done'
                AND asked_version BETWEEN %(first)s AND %(last)s
        ) AS ended ON ended.plan_step = number AND state = 'Done'
        WHERE plan_id = %(plan)s
    ) AS steps
"""


def plan(plan_id: UUID) -> PlanRow | None:
    """One plan."""
    found = _named(_ONE_PLAN, {"plan": plan_id})
    return PlanRow(**found[0]) if found else None


def plans(
    limit: int, *, after: tuple[int, UUID] | None = None, phases: Sequence[str] = (), kind: str = ""
) -> list[PlanRow]:
    """Plans, proposed last first, after the one of this turn and id; only of these phases and this kind.

    Without the moves that a plan names: each of hundreds may name ten thousand.
    """
    asked = ["true"]
    if phases:
        asked.append("phase = ANY (%(phases)s)")
    if kind:
        asked.append("kind = %(kind)s")
    if after is not None:
        asked.append("(-proposed_version, id) > (-%(version)s::bigint, %(id)s::uuid)")
    version, last = after or (0, None)
    which = f"WHERE {' AND '.join(asked)} ORDER BY proposed_version DESC, id LIMIT %(limit)s"
    values = {"limit": limit, "phases": list(phases), "kind": kind, "version": version, "id": last}
    return [PlanRow(**row) for row in _named(f"{_LISTED_PLANS} {which}", values)]


def plans_named(ids: Collection[UUID]) -> dict[UUID, PlanRow]:
    """Those of these plans that are there, as a list tells them."""
    if not ids:
        return {}
    found = _named(f"{_LISTED_PLANS} WHERE id = ANY (%(ids)s)", {"ids": list(ids)})
    return {row["id"]: PlanRow(**row) for row in found}


def step_counts(plan: PlanRow) -> StepCounts:
    """The steps of a plan, counted: a hundred thousand take some tens of milliseconds."""
    # What moved in its time is found by an index, if its time is said in numbers.
    first, last = plan.proposed_version, plan.version if plan.is_over else _LAST_VERSION
    if plan.started_at is None:
        last = first
    with connection.cursor() as cursor:
        cursor.execute(_STEP_COUNTS, {"plan": plan.id, "first": first, "last": last})
        names = [*map(str.lower, STEP_STATES), "bytes", "bytes_done", "bytes_waiting"]
        return StepCounts(**dict(zip(names, cursor.fetchone(), strict=True)))


def steps(plan_id: UUID, limit: int, *, after: int = -1, state: str = "", topic: str = "") -> list[StepRow]:
    """Steps of a plan in their order behind the number `after`; only those in a state, or of a topic."""
    asked = ["plan_id = %(plan)s", "number > %(after)s"]
    if state:
        asked.append("state = %(state)s")
    if topic:
        asked.append("topic_name = %(topic)s")
    statement = f"""
        SELECT number, topic_id, topic_name, partition, origin, target, size_bytes, state, why
        FROM plan_step WHERE {" AND ".join(asked)} ORDER BY number LIMIT %(limit)s"""
    values = {"plan": plan_id, "after": after, "state": state, "topic": topic, "limit": limit}
    found = [StepRow(**row) for row in _named(statement, values)]
    under_way = _of_steps(plan_id, [step.number for step in found if step.state == "Asked"])
    return [replace(step, move=under_way.get(step.number)) for step in found]


def _of_steps(plan_id: UUID, numbers: Sequence[int]) -> dict[int, Move]:
    """The moves of these steps of a plan that are under way."""
    if not numbers:
        return {}
    statement = f"""{_MOVES} WHERE phase IN ('Init', 'InProgress')
        AND plan_id = %(plan)s AND plan_step = ANY (%(steps)s)"""
    found = _moves(statement, {"plan": plan_id, "steps": list(numbers)})
    return {move.plan_step: move for move in found}


def _named(statement: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows by the names of their columns; what JSON columns hold is read."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        columns = [(column.name, column.name in ("options", "cost")) for column in cursor.description or ()]
        return [
            {
                name: json.loads(value) if is_json and isinstance(value, str) else value
                for (name, is_json), value in zip(columns, row, strict=True)
            }
            for row in cursor.fetchall()
        ]
