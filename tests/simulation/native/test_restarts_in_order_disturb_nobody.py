"""Nodes are stopped in order and started anew, one after the other: members notice a new address, no more."""

import pytest

from muster.messages.partitions import Partition
from tests.simulation.native.cluster import Cluster
from tests.simulation.native.runner import simulated

RESTARTS = 5
SETTLED_MS = 10_000
"""By then whoever was shown the way fetches, and another node has come in the place of the one that went."""


def settle(cluster: Cluster) -> None:
    cluster.world.run_until(cluster.world.now + SETTLED_MS)
    assert not cluster.why_unsettled()


def consumed(cluster: Cluster) -> dict[Partition, int]:
    """How much of each partition somebody has read since the last time."""
    read = dict(cluster.progress)
    cluster.progress.clear()
    return read


@pytest.mark.parametrize("seed", [0, 1, 11])
def test_five_restarts_in_a_row_expel_nobody_and_rebalance_nothing(seed: int) -> None:
    with simulated(seed) as cluster:
        for name in ("ann", "ben", "cleo"):
            cluster.start(name)
        settle(cluster)
        before = cluster.world.rows.rows
        began, drained = cluster.world.attempts, []
        for _ in range(RESTARTS):
            owner = cluster.owner
            assert owner is not None
            drained.append(owner.name)
            cluster.drain(owner)
            consumed(cluster)
            settle(cluster)
            assert owner.status == "over" and cluster.owner is not owner
            assert consumed(cluster).keys() == {one for mine in before.owned.values() for one in mine}
        rows = cluster.world.rows.rows
        assert len(set(drained)) == RESTARTS
        assert cluster.world.attempts == began
        assert (rows.generation, rows.members.keys()) == (before.generation, before.members.keys())
        assert {name: mine.keys() for name, mine in rows.owned.items()} == {
            name: mine.keys() for name, mine in before.owned.items()
        }
        assert not cluster.world.violation
