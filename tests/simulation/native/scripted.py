"""This room plays what chance rarely brings, in a world without faults but the one that is named."""

from collections.abc import Callable

from tests.simulation.native.cluster import Cluster
from tests.simulation.native.runner import simulated
from tests.simulation.native.world import Violation

SETTLED_MS = 8_000
"""By then both have joined, and fetch."""


def a_member_comes_back_after_another_had_its_share(cluster: Cluster) -> None:
    """Two generations are opened meanwhile: one gives its share away, one gives it back."""
    cluster.start("ann")
    ben = cluster.start("ben")
    cluster.world.run_until(SETTLED_MS)
    ben.pause()
    cluster.world.later(12_000, ben.wake)
    cluster.world.run_until(SETTLED_MS + 25_000)


def who_is_stopped_commits_the_step_in_hand_behind_its_answer(cluster: Cluster) -> None:
    """The commit is sent right behind the StopFetcherResponse, and is one further."""
    ann, ben = cluster.start("ann"), cluster.start("ben")
    ann.finishes_a_step = ben.finishes_a_step = True
    for name in ("cleo", "dora"):
        cluster.world.run_until(cluster.world.now + SETTLED_MS)
        cluster.start(name).finishes_a_step = True
    cluster.world.run_until(cluster.world.now + SETTLED_MS)


def violation_of(script: Callable[[Cluster], None], seed: int) -> str:
    """Empty when nothing happened that must never happen."""
    with simulated(seed) as cluster:
        try:
            script(cluster)
        except Violation as found:
            return str(found)
        return cluster.world.violation
