"""What became of moves and plans is told for thirty days; what goes on stays, with what it has done."""

from uuid import UUID, uuid4

import pytest

from controller import store_forgetting
from runtime.postgres import LaneConnection
from tests.integration.controller.test_store_keeps_what_a_turn_made_true import connection

__all__ = ["connection"]

RECENT, OLD = 29, 31


def add_plan(connection: LaneConnection, phase: str, days: int | None) -> UUID:
    """A plan of two steps that ended so many days ago; None: it goes on."""
    plan_id = uuid4()
    connection.execute(
        """INSERT INTO plan (id, kind, options, phase, throttle, at_a_time, step_count, cost, proposed_by,
            reason, changed_by, why, version, proposed_version, ended_at)
        VALUES (%s, 'spread', '{"kind": "spread"}', %s, 0, 10, 2, '{}', '', '', '', '', 1, 1,
            now() - make_interval(days => %s))""",
        (plan_id, phase, days),
    )
    connection.execute(
        """INSERT INTO plan_step (plan_id, number, topic_id, topic_name, partition, reviewed_version, origin,
            target, state, why)
        SELECT %s, number, gen_random_uuid(), 'clicks', number, 1, '{1}', '{2}', 'Done', ''
        FROM generate_series(0, 1) AS number""",
        (plan_id,),
    )
    return plan_id


def add_move(connection: LaneConnection, phase: str, days: int | None, plan_id: UUID | None = None) -> UUID:
    """A move, of a plan or of none, of which one broker said how much of it has come."""
    move_id = uuid4()
    connection.execute(
        """INSERT INTO reassignment (id, topic_id, topic_name, partition, origin, target, phase, principal,
            reason, plan_id, asked_version, asked_place, version, ended_at)
        VALUES (%s, gen_random_uuid(), 'clicks', 0, '{1}', '{2}', %s, '', '', %s, 1, 0, 1,
            now() - make_interval(days => %s))""",
        (move_id, phase, plan_id, days),
    )
    connection.execute(
        "INSERT INTO arrival (move_id, broker_id, held_bytes, recent_bytes) VALUES (%s, 2, 9, 9)", (move_id,)
    )
    return move_id


def left(connection: LaneConnection, table: str) -> set[UUID]:
    found: set[UUID] = set()
    for (one,) in connection.execute(f"SELECT id FROM {table}").fetchall():
        found.add(one)
    return found


@pytest.mark.parametrize("phase", ["Done", "Cancelled", "Failed"])
def test_what_ended_long_ago_goes_and_what_ended_lately_stays(connection: LaneConnection, phase: str) -> None:
    add_move(connection, phase, OLD)
    old_plan, recent_plan = add_plan(connection, phase, OLD), add_plan(connection, phase, RECENT)
    add_move(connection, phase, OLD, old_plan)
    lately = {add_move(connection, phase, RECENT), add_move(connection, phase, RECENT, recent_plan)}
    assert store_forgetting.forget_moves(connection) == 2
    assert store_forgetting.forget_plans(connection) == 2, "steps"
    assert left(connection, "reassignment") == lately
    assert left(connection, "plan") == {recent_plan}
    assert connection.execute("SELECT DISTINCT plan_id FROM plan_step").fetchall() == [(recent_plan,)]
    connection.commit()
    assert connection.execute("SELECT count(*) FROM arrival").fetchone() == (2,)
    assert store_forgetting.forget_moves(connection) == store_forgetting.forget_plans(connection) == 0


@pytest.mark.parametrize("phase", ["Draft", "Approved", "Running", "Paused"])
def test_a_plan_that_goes_on_keeps_what_it_has_done(connection: LaneConnection, phase: str) -> None:
    plan = add_plan(connection, phase, None)
    done = add_move(connection, "Done", OLD, plan)
    assert store_forgetting.forget_moves(connection) == store_forgetting.forget_plans(connection) == 0
    assert left(connection, "plan") == {plan} and left(connection, "reassignment") == {done}


def test_a_plan_that_is_kept_keeps_what_it_has_done(connection: LaneConnection) -> None:
    """What it copied is told by its moves, of which the first ended days before it did."""
    plan = add_plan(connection, "Done", RECENT)
    done = add_move(connection, "Done", OLD, plan)
    assert store_forgetting.forget_moves(connection) == store_forgetting.forget_plans(connection) == 0
    assert left(connection, "plan") == {plan} and left(connection, "reassignment") == {done}


def test_a_plan_with_a_move_that_goes_on_stays(connection: LaneConnection) -> None:
    """Its moves outlive a plan that is cancelled alone."""
    plan = add_plan(connection, "Cancelled", OLD)
    move = add_move(connection, "InProgress", None, plan)
    assert store_forgetting.forget_moves(connection) == store_forgetting.forget_plans(connection) == 0
    assert left(connection, "plan") == {plan} and left(connection, "reassignment") == {move}


def test_they_go_a_batch_at_a_time(connection: LaneConnection) -> None:
    for _ in range(3):
        add_move(connection, "Done", OLD, add_plan(connection, "Done", OLD))
    assert [store_forgetting.forget_moves(connection, rows=2) for _ in range(2)] == [2, 1]
    assert [store_forgetting.forget_plans(connection, rows=4) for _ in range(2)] == [4, 2]
    assert not left(connection, "plan") and not left(connection, "reassignment")
