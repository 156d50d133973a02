"""A lift of all epochs goes above whatever a lost database gave out, and not above what has a number."""

import msgspec
from msgspec import structs

from controller import store
from controller.core import records as facts
from controller.core.election import LAST_EPOCH
from muster.messages.link.rows import DOUBTED, NO_LEADER, PROVEN, UNPROVEN, UNPROVEN_AGAIN, PartitionRow
from runtime.postgres import LaneConnection
from tests.integration.controller.test_store_keeps_what_a_turn_made_true import (
    ORDERS,
    connection,
    turn,
    with_orders,
)
from tests.unit.messages.made_rows import changed

__all__ = ["connection"]


def test_a_lift_lets_added_partitions_begin_above_what_was_lost(connection: LaneConnection) -> None:
    with_orders(connection)
    store.lift(connection, 1_000, 9)
    assert store.load(connection).topics[ORDERS].removed_epoch == 1_000


def test_a_lift_gives_no_epoch_that_has_no_room(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    near = PartitionRow(ORDERS, 0, (1, 2, 3), 1, LAST_EPOCH - 500, (1, 2, 3), 2)
    far = PartitionRow(ORDERS, 1, (1,), 1, LAST_EPOCH - 1_001, (1,), 2)
    turn(connection, rows, changed(near, 1), changed(far, 1))
    connection.execute("UPDATE topic SET removed_epoch = %s", (LAST_EPOCH - 1,))
    store.lift(connection, 1_000, 9)
    found = connection.execute(
        "SELECT leader, leader_epoch, unproven FROM partition ORDER BY leader_epoch, partition"
    )
    assert found.fetchall() == [(-1, 0, 0), (1, LAST_EPOCH - 1, 0), (-1, LAST_EPOCH, 0)]
    assert store.load(connection).topics[ORDERS].removed_epoch == LAST_EPOCH


def test_a_lift_lets_nobody_lead_where_others_may_hold_more(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    alone, three = (
        PartitionRow(ORDERS, n, seats, 1, 7, seats, 2) for n, seats in enumerate(((1,), (1, 2, 3)))
    )
    turn(connection, rows, changed(alone, 1), changed(three, 1))
    store.lift(connection, 1_000, 9)
    lifted = store.load(connection).partitions
    assert (lifted[ORDERS, 0].leader, lifted[ORDERS, 0].unproven) == (1, PROVEN)
    row = lifted[ORDERS, 1]
    assert (row.leader, row.leader_epoch, row.isr, row.unproven) == (NO_LEADER, 1_007, (1, 2, 3), UNPROVEN)


def test_another_lift_forgets_no_doubt_and_knows_that_it_is_not_the_first(connection: LaneConnection) -> None:
    rows = with_orders(connection)
    seats = (1, 2, 3)
    doubted = PartitionRow(ORDERS, 0, seats, NO_LEADER, 7, seats, 2, unproven=DOUBTED)
    waiting = PartitionRow(ORDERS, 1, seats, NO_LEADER, 7, seats, 2, unproven=UNPROVEN)
    turn(connection, rows, changed(doubted, 1), changed(waiting, 1))
    store.lift(connection, 1_000, 9)
    lifted = store.load(connection).partitions
    assert [lifted[ORDERS, n].unproven for n in (0, 1)] == [DOUBTED, UNPROVEN_AGAIN]
    store.lift(connection, 1_000, 10)
    lifted = store.load(connection).partitions
    assert [lifted[ORDERS, n].unproven for n in (0, 1)] == [DOUBTED, UNPROVEN_AGAIN]


def test_a_lift_is_told_by_the_records_that_a_turn_would_write(connection: LaneConnection) -> None:
    """PostgreSQL words them: of 300,000 partitions Python held more than a million objects at once."""
    rows = with_orders(connection)
    alone, three, doubted = (
        PartitionRow(ORDERS, n, seats, seats[0], 7 + n, seats, 2, throttle=5, unproven=unproven)
        for n, (seats, unproven) in enumerate((((1,), PROVEN), ((1, 2, 3), PROVEN), ((2, 1), UNPROVEN)))
    )
    doubted = structs.replace(doubted, leader=NO_LEADER)
    turn(connection, rows, changed(alone, 1), changed(three, 1), changed(doubted, 1))
    before = store.load(connection).partitions
    lifted = store.lift(connection, 1_000, rows.metadata_version + 1)
    records = msgspec.json.decode(lifted.records, type=list[facts.PartitionsChanged])
    told = {
        (one.alike.topic_id, number): (one.alike.row(number, one.version), base)
        for one in records
        for number, base in zip(one.alike.partitions, one.base_versions, strict=True)
    }
    after = store.load(connection).partitions
    assert sorted(told) == [(ORDERS, 0), (ORDERS, 1), (ORDERS, 2)]
    assert told == {place: (after[place], before[place].version) for place in told}
    assert lifted.rows == len(told) + 3


def test_a_lift_of_nothing_is_told_by_no_record(connection: LaneConnection) -> None:
    assert store.lift(connection, 1_000, 9) == (0, "[]")
