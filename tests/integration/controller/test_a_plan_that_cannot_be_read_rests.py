"""A plan that only a later version knows keeps no controller from all else."""

from uuid import uuid4

from controller import store
from controller.core import records as facts
from controller.core.plan_rows import Plan, PlanPhase, PlanStep
from muster.messages.link.plans import PlanKind, PlanOptions
from runtime.postgres import LaneConnection
from tests.integration.controller.test_store_keeps_what_a_turn_made_true import (
    ORDERS,
    connection,
    turn,
    with_orders,
)

__all__ = ["connection"]


def test_a_plan_of_a_kind_that_only_a_later_version_knows_rests_and_all_else_is_loaded(
    connection: LaneConnection,
) -> None:
    rows = with_orders(connection)
    known, unknown = (
        Plan(uuid4(), PlanOptions(kind=PlanKind.DRAIN, brokers=(1,)), PlanPhase.RUNNING, 2, 0, 10)
        for _ in range(2)
    )
    step = PlanStep(0, ORDERS, "orders", 0, 1, (1, 2, 3), (3, 2), size_bytes=1)
    turn(connection, rows, facts.PlanChanged(known), facts.PlanStepsAdded(known.id, (step,)))
    turn(connection, rows, facts.PlanChanged(unknown), facts.PlanStepsAdded(unknown.id, (step,)))
    connection.execute("""UPDATE plan SET options = '{"kind": "levitate"}' WHERE id = %s""", (unknown.id,))
    loaded = store.load(connection)
    assert loaded.plans.plans == {known.id: known}
    assert loaded.plans.waiting.keys() == {known.id}
    assert loaded.partitions == rows.partitions
