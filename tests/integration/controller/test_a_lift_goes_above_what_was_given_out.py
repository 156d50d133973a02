"""A lift of all epochs goes above whatever a lost database gave out, and not above what has a number."""

from controller import store
from controller.core.election import LAST_EPOCH
from muster.messages.link.rows import PartitionRow
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
    far = PartitionRow(ORDERS, 1, (1, 2, 3), 1, LAST_EPOCH - 1_001, (1, 2, 3), 2)
    turn(connection, rows, changed(near, 1), changed(far, 1))
    connection.execute("UPDATE topic SET removed_epoch = %s", (LAST_EPOCH - 1,))
    store.lift(connection, 1_000, 9)
    found = connection.execute("SELECT leader, leader_epoch FROM partition ORDER BY leader_epoch, partition")
    assert found.fetchall() == [(-1, 0), (1, LAST_EPOCH - 1), (-1, LAST_EPOCH)]
    assert store.load(connection).topics[ORDERS].removed_epoch == LAST_EPOCH
