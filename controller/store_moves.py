"""This room loads and saves reassignments and plans, inside the turn's transaction of `controller.store`."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any
from uuid import UUID

import msgspec
import structlog
from psycopg import Cursor

from controller import statements_moves as statements
from controller.core import records as facts
from controller.core.plan_rows import Plan, PlanPhase, PlanStep, PlanTable
from controller.core.state import ClusterRows
from controller.statements import arrays, numbers, uuids
from muster.messages.link.from_broker import Arriving
from muster.messages.link.plans import PlanOptions
from runtime.ports import VersionConflict
from runtime.postgres import LaneConnection

_steps = msgspec.json.Decoder(list[PlanStep])
log = structlog.get_logger(__name__)


def load(cursor: Cursor[Any]) -> tuple[list[facts.Reassignment], PlanTable]:
    """The active reassignments in the order of asking, and the plans that are not over."""
    moves = [_reassignment(*row) for row in cursor.execute(statements.READ_REASSIGNMENTS).fetchall()]
    plans = list(_readable(cursor.execute(statements.READ_PLANS).fetchall()))
    known = {plan.id for plan in plans}
    going_on = [plan.id for plan in plans if not plan.phase.is_over]
    waiting: list[tuple[UUID, PlanStep]] = []
    if going_on:
        cursor.execute(statements.READ_WAITING_STEPS, {"plan_ids": uuids(going_on)})
        waiting = [one for row in cursor.fetchall() for one in _steps_of(*row)]
    found = cursor.execute(statements.READ_ASKED_STEPS).fetchall() if known else []
    asked = [one for row in found if UUID(str(row[0])) in known for one in _steps_of(*row)]
    return moves, PlanTable.of(plans, waiting, asked)


def _readable(rows: Sequence[Sequence[Any]]) -> Iterator[Plan]:
    """Without a plan of a kind that only another version knows: it rests, and all else has its controller."""
    for row in rows:
        try:
            yield _plan(*row)
        except ValueError as problem:
            log.error("plan cannot be read and rests", plan=str(row[0]), error=str(problem))


def save(cursor: Cursor[Any], before: ClusterRows, kinds: Mapping[type, Sequence[Any]], version: int) -> None:
    """Write what a turn did to them. Raises VersionConflict if it fits the rows no more."""
    if moved := [record.row for record in kinds.get(facts.ReassignmentChanged, ())]:
        _save_reassignments(cursor, before, moved, version)
    for failed in kinds.get(facts.MovesFailed, ()):
        # Behind the others: of those that the turn itself changed none is active any more.
        values = {
            "topic_id": failed.topic_id,
            "partitions": numbers(failed.partitions),
            "reason": failed.reason,
            "version": version,
        }
        cursor.execute(statements.FAIL_REASSIGNMENTS, values)
        require(cursor, len(failed.partitions), "reassignment")
    if plans := [record.row for record in kinds.get(facts.PlanChanged, ())]:
        cursor.execute(statements.PUT_PLANS, _plan_columns(plans))
        require(cursor, len(plans), "plan")
    for added in kinds.get(facts.PlanStepsAdded, ()):
        cursor.execute(statements.ADD_STEPS, _step_columns(added))
    for changed in kinds.get(facts.PlanStepsChanged, ()):
        values = {
            "plan_id": changed.plan_id,
            "state": str(changed.state),
            "why": changed.why,
            "numbers": numbers(changed.numbers),
        }
        cursor.execute(statements.CHANGE_STEPS, values)
        require(cursor, len(changed.numbers), "plan_step")


def note_arrivals(connection: LaneConnection, said: Sequence[tuple[int, Arriving]]) -> None:
    """Store how much of what moves has come to each broker, for people, beside turns."""
    with connection.cursor() as cursor:
        cursor.execute(statements.FORGET_ARRIVALS)
        cursor.execute(
            statements.NOTE_ARRIVALS,
            {
                "broker_id": numbers(broker_id for broker_id, _ in said),
                "topic_id": uuids(one.topic_id for _, one in said),
                "partition": numbers(one.partition for _, one in said),
                "held_bytes": numbers(one.held_bytes for _, one in said),
            },
        )


# ---------------------------------------------------------------------------------- reassignments


def _reassignment(
    move_id: UUID,
    topic_id: UUID,
    topic: str,
    partition: int,
    origin: list[int],
    target: list[int],
    phase: str,
    principal: str,
    reason: str,
    throttle: int,
    plan_id: UUID | None,
    plan_step: int,
) -> facts.Reassignment:
    return facts.Reassignment(
        UUID(str(move_id)),
        UUID(str(topic_id)),
        topic,
        partition,
        tuple(origin),
        tuple(target),
        facts.Phase(phase),
        principal,
        reason,
        throttle,
        plan_id and UUID(str(plan_id)),
        plan_step,
    )


def _save_reassignments(
    cursor: Cursor[Any], before: ClusterRows, changed: Sequence[facts.Reassignment], version: int
) -> None:
    """What ends makes room for another of the same partition: first those that are stored."""
    known: list[facts.Reassignment] = []
    new: list[facts.Reassignment] = []
    for row in changed:
        stored = before.reassignments.get(row.key)
        (known if stored is not None and stored.id == row.id else new).append(row)
    if known:
        cursor.execute(statements.CHANGE_REASSIGNMENTS, _reassignment_columns(known, version))
        require(cursor, len(known), "reassignment")
    if new:
        cursor.execute(statements.ADD_REASSIGNMENTS, _reassignment_columns(new, version))


def _reassignment_columns(rows: Sequence[facts.Reassignment], version: int) -> dict[str, Any]:
    return {
        "version": version,
        "id": uuids(row.id for row in rows),
        "topic_id": uuids(row.topic_id for row in rows),
        "topic_name": [row.topic for row in rows],
        "partition": numbers(row.partition for row in rows),
        "origin": arrays(row.origin for row in rows),
        "target": arrays(row.target for row in rows),
        "phase": [str(row.phase) for row in rows],
        "principal": [row.principal for row in rows],
        "reason": [row.reason for row in rows],
        "throttle": numbers(row.throttle for row in rows),
        "plan_id": [row.plan_id for row in rows],
        "plan_step": numbers(row.plan_step for row in rows),
    }


# ---------------------------------------------------------------------------------- plans


def _plan(plan_id: UUID, options: Any, phase: str, *rest: Any) -> Plan:
    return Plan(UUID(str(plan_id)), msgspec.convert(options, PlanOptions), PlanPhase(phase), *rest)


def _steps_of(plan_id: UUID, text: str) -> Iterator[tuple[UUID, PlanStep]]:
    return zip(repeat(UUID(str(plan_id))), _steps.decode(text), strict=False)


def _plan_columns(plans: Sequence[Plan]) -> dict[str, Any]:
    return {
        "id": uuids(plan.id for plan in plans),
        "kind": [str(plan.options.kind) for plan in plans],
        "options": [as_json(plan.options) for plan in plans],
        "phase": [str(plan.phase) for plan in plans],
        "throttle": numbers(plan.throttle for plan in plans),
        "at_a_time": numbers(plan.at_a_time for plan in plans),
        "step_count": numbers(plan.step_count for plan in plans),
        "cost": [as_json(plan.cost) for plan in plans],
        "proposed_by": [plan.proposed_by for plan in plans],
        "reason": [plan.reason for plan in plans],
        "changed_by": [plan.changed_by for plan in plans],
        "why": [plan.why for plan in plans],
        "version": numbers(plan.version for plan in plans),
    }


def _step_columns(added: facts.PlanStepsAdded) -> dict[str, Any]:
    steps = added.steps
    return {
        "plan_id": uuids(repeat(added.plan_id, len(steps))),
        "number": numbers(step.number for step in steps),
        "topic_id": uuids(step.topic_id for step in steps),
        "topic_name": [step.topic for step in steps],
        "partition": numbers(step.partition for step in steps),
        "reviewed_version": numbers(step.version for step in steps),
        "origin": arrays(step.origin for step in steps),
        "target": arrays(step.target for step in steps),
        "size_bytes": numbers(step.size_bytes for step in steps),
    }


def as_json(value: object) -> str:
    """Text for a column of jsonb."""
    return msgspec.json.encode(value).decode()


def require(cursor: Cursor[Any], count: int, table: str) -> None:
    """Raise VersionConflict unless the last statement changed so many rows."""
    if cursor.rowcount != count:
        raise VersionConflict(f"{table}: {cursor.rowcount} rows of {count} were as decided on")
