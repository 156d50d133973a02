"""Whoever takes the controller reads the steps that are active or may be asked, of however many are kept."""

from uuid import uuid4

import pytest

from controller import store
from controller.core import records as facts
from controller.core.plan_rows import Plan, PlanPhase, PlanStep, StepState
from controller.core.records import Phase, Reassignment
from muster.messages.link.plans import PlanKind, PlanOptions
from runtime.postgres import LaneConnection
from tests.integration.controller.test_store_keeps_what_a_turn_made_true import (
    ORDERS,
    connection,
    turn,
    with_orders,
)

__all__ = ["connection"]

PLANS, STEPS = 8, 1_000

KEPT = """
INSERT INTO plan (id, kind, options, phase, throttle, at_a_time, step_count, cost, proposed_by, reason,
    changed_by, why, version, proposed_version)
SELECT gen_random_uuid(), 'spread', '{"kind": "spread"}', phase, 0, 10, %s, '{}', '', '', '', '', 1, 1
FROM unnest(ARRAY['Cancelled', 'Done']) AS phase, generate_series(1, %s)"""
KEPT_STEPS = """
INSERT INTO plan_step (plan_id, number, topic_id, topic_name, partition, reviewed_version, origin, target,
    state, why)
SELECT id, number, gen_random_uuid(), 'clicks', number, 1, '{1}', '{2}',
    CASE phase WHEN 'Done' THEN 'Done' ELSE 'Waiting' END, ''
FROM plan, generate_series(0, %s) AS number WHERE step_count = %s"""


def read_of(connection: LaneConnection, table: str) -> int:
    """Rows of the table that this transaction has read so far."""
    statement = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = %s"
    row = connection.execute(statement, (table,)).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("is_analyzed", [False, True], ids=["as it was written", "analyzed"])
def test_a_load_reads_the_steps_that_go_on(connection: LaneConnection, is_analyzed: bool) -> None:
    rows = with_orders(connection)
    plan = Plan(uuid4(), PlanOptions(kind=PlanKind.SPREAD), PlanPhase.RUNNING, 2, 0, 1, 2)
    over = Plan(uuid4(), PlanOptions(kind=PlanKind.SPREAD), PlanPhase.RUNNING, 2, 0, 1, 2)
    for one, first in ((plan, 0), (over, 1)):
        steps = tuple(PlanStep(n, ORDERS, "orders", first + n, 1, (1, 2, 3), (3, 2)) for n in range(2))
        move = Reassignment(
            uuid4(), ORDERS, "orders", first, (1, 2, 3), (3, 2), Phase.INIT, plan_id=one.id, plan_step=0
        )
        turn(connection, rows, facts.PlanChanged(one), facts.PlanStepsAdded(one.id, steps))
        asked = facts.PlanStepsChanged(one.id, StepState.ASKED, (0,), "")
        turn(connection, rows, facts.ReassignmentChanged(move), asked)
    turn(connection, rows, facts.PlanChanged(Plan(over.id, over.options, PlanPhase.CANCELLED, 3, 0, 1, 2)))
    connection.execute(KEPT, (STEPS, PLANS))
    connection.execute(KEPT_STEPS, (STEPS - 1, STEPS))
    connection.commit()
    if is_analyzed:
        connection.execute("ANALYZE plan, plan_step, reassignment")
        connection.commit()
    before = read_of(connection, "plan_step")
    assert store.load(connection) == rows
    assert {key: len(asked) for key, asked in rows.plans.asked.items()} == {plan.id: 1, over.id: 1}
    # Those that are active, and both of the plan that goes on: the index finds them by plan.
    assert read_of(connection, "plan_step") - before <= 4
