"""A kill -9 around a batch or a lease loses nothing that was acknowledged; the next node serves on."""

from collections.abc import Callable

from tests.integration.runtime.conftest import CounterNode, Truth
from tests.integration.runtime.counter_node import LANES

LANE = "coordinator/0"
ROW = f"{LANE}:orders"


def test_a_batch_is_whole_or_absent_and_never_acknowledged_before_it_is_whole(
    truth: Truth, start_node: Callable[..., CounterNode]
) -> None:
    absent = start_node("node-1", "batch.begin=exit")
    absent.wait_accepted()
    absent.ask("note", LANE, "orders", 1)
    assert absent.end() == -9
    assert (truth.tally(), absent.facts("noted")) == ({}, [])

    whole = start_node("node-2", "batch.committed=exit")
    whole.wait_accepted()
    whole.ask("note", LANE, "orders", 2)
    assert whole.end() == -9
    assert (truth.tally(), whole.facts("noted")) == ({ROW: 2}, [])

    heir = start_node("node-3")
    heir.wait_accepted()
    heir.ask("note", LANE, "orders", 3)
    heir.wait("noted", {ROW: 3})
    assert truth.tally() == {ROW: 3}


def test_nodes_that_die_while_they_take_leases_leave_them_to_the_next(
    truth: Truth, start_node: Callable[..., CounterNode]
) -> None:
    taken = start_node("node-1", "lease.accept=exit")
    assert taken.end() == -9
    judging = start_node("node-2", "lease.end=exit")
    assert judging.end() == -9
    assert [runs for (runs,) in truth.rows("SELECT count(*) FROM node_session WHERE NOT ended")] == [2]
    renewing = start_node("node-3", "lease.renew=exit@20")
    renewing.wait_accepted()
    assert renewing.end() == -9

    heir = start_node("node-4")
    heir.wait_accepted()
    heir.ask("add", LANE, "orders", 1)
    heir.wait("said", "orders")
    epochs = dict(truth.rows("SELECT name, epoch FROM lease"))
    assert all(epochs[lane] >= 2 for lane in LANES)
