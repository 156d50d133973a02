"""This room computes plans in a worker: it reads the cluster and returns steps and cost, nothing else.

The controller's lane stores what it returns some steps at a time (`controller.core.plans`).
"""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import msgspec
from psycopg import Connection

from controller import statements_moves as statements
from controller.core.proposals import DoneStep, Proposal, StoredBroker, StoredPartition, propose
from muster.messages.link.plans import PlanKind, PlanOptions
from runtime.work import WorkRow

FUNCTION: Final = "controller.planning:compute_plan"
"""How `runtime.work` finds it."""

STEPS_PER_PART: Final = 2_500
"""One turn stores two parts."""

_brokers = msgspec.json.Decoder(list[StoredBroker])
_partitions = msgspec.json.Decoder(list[StoredPartition])
_done_steps = msgspec.json.Decoder(list[DoneStep])


def compute_plan(connection: Connection[Any], item: WorkRow) -> Callable[[], Any]:
    """Read the plan that the item's key names, and the cluster; the computation returns parts and cost."""
    with connection.cursor() as cursor:
        found = cursor.execute(statements.READ_PLAN_TO_COMPUTE, {"plan_id": UUID(item.key)}).fetchone()
        if found is None:
            return lambda: {"failure": "the plan is no more"}
        options, throttle = msgspec.convert(found[0], PlanOptions), found[1]
        brokers = _text(cursor.execute(statements.READ_BROKERS_TO_PLAN))
        topics: dict[UUID, str] = dict(cursor.execute(statements.READ_NAMES_OF_TOPICS).fetchall())
        partitions = _text(cursor.execute(statements.READ_PARTITIONS_TO_PLAN))
        undone = "[]"
        if options.kind is PlanKind.UNDO:
            undone = _text(cursor.execute(statements.READ_DONE_STEPS, {"plan_id": options.undoes}))

    def compute() -> Any:
        proposal = propose(
            options,
            throttle,
            _brokers.decode(brokers),
            topics,
            _partitions.decode(partitions),
            _done_steps.decode(undone),
        )
        return _result(proposal)

    return compute


def _text(cursor: Any) -> str:
    found: str = cursor.fetchone()[0]
    return found


def _result(proposal: Proposal) -> dict[str, Any]:
    """As `controller.service` hears it."""
    if proposal.cost is None:
        return {"failure": proposal.failure}
    steps = proposal.steps
    parts = [steps[at : at + STEPS_PER_PART] for at in range(0, len(steps), STEPS_PER_PART)]
    return {
        "parts": [msgspec.json.encode(part).decode() for part in parts],
        "cost": msgspec.to_builtins(proposal.cost),
    }
