"""This room plays what chance rarely brings, in a world without faults but the one that is named."""

from collections.abc import Callable

from groups.core.requests import DeleteOffsets, Scope
from muster.kernel.ids import TopicName
from muster.messages.member import TopicCount
from tests.simulation.native.cluster import EVERYTHING, Cluster
from tests.simulation.native.runner import simulated
from tests.simulation.timeline import Violation

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


def offsets_are_reset_while_everybody_is_away(cluster: Cluster) -> None:
    """By an operator."""

    def change() -> None:
        cluster.operators.reset_offsets()

    _while_everybody_is_away(cluster, change)


def offsets_are_committed_by_nobody_while_everybody_is_away(cluster: Cluster) -> None:
    """By Kafka's tool; twice, for what was skipped the first time is of no use the second."""
    for _ in range(2):
        _while_everybody_is_away(cluster, lambda: _commit_as_nobody(cluster))


def a_kafka_consumer_knocks_before_offsets_change(cluster: Cluster) -> None:
    """The group is a classic one by then, in which nothing is skipped."""

    def change() -> None:
        cluster.operators.knock()
        cluster.world.later(1_000, lambda: _commit_as_nobody(cluster))

    _while_everybody_is_away(cluster, change)


def offsets_are_deleted_of_a_topic_that_is_not_given_up_yet(cluster: Cluster) -> None:
    """It is not subscribed to any more; whoever owns it commits there until it has answered StopFetcher."""
    ann = cluster.start("ann")
    cluster.world.run_until(SETTLED_MS)
    ann.mute = True
    ann.subscribe((TopicCount("clicks"),))
    cluster.world.run_until(cluster.world.now + 1_000)
    cluster.operators.ask(DeleteOffsets((Scope("orders"),)))
    cluster.world.run_until(cluster.world.now + 3_000)
    ann.unmute()
    cluster.world.run_until(cluster.world.now + SETTLED_MS)
    ann.subscribe(EVERYTHING)
    cluster.world.run_until(cluster.world.now + SETTLED_MS)


def a_batch_of_commits_is_refused_though_it_is_stored(cluster: Cluster) -> None:
    """The answer to its COMMIT is lost; written again under the next epoch, it is spoiled by a mistake."""
    ann = cluster.start("ann")
    cluster.world.run_until(SETTLED_MS)
    node = cluster.owner
    assert node is not None
    may_fail = node.may_fail

    def loses_the_answer_and_fails_then() -> None:
        node.may_fail = may_fail  # type: ignore[method-assign]
        for link in node.database.links:
            link.lose_answer = True
        node.fails = 1

    node.may_fail = loses_the_answer_and_fails_then  # type: ignore[method-assign]
    ann.commit()
    cluster.world.run_until(cluster.world.now + SETTLED_MS)


def _while_everybody_is_away(cluster: Cluster, change: Callable[[], None]) -> None:
    ann = cluster.alive()[0] if cluster.alive() else cluster.start("ann")
    cluster.world.run_until(cluster.world.now + SETTLED_MS)
    ann.pause()
    cluster.world.later(9_000, change)
    cluster.world.later(12_000, ann.wake)
    cluster.world.run_until(cluster.world.now + 12_000 + SETTLED_MS)


def _commit_as_nobody(cluster: Cluster) -> None:
    layout = cluster.world.layouts[TopicName("orders")]
    partitions = [cluster.partition("orders", number) for number in range(layout.partition_count)]
    assert cluster.owner is not None
    cluster.operators.commit_as_nobody(cluster.owner, partitions)


def violation_of(script: Callable[[Cluster], None], seed: int) -> str:
    """Empty when nothing happened that must never happen."""
    with simulated(seed) as cluster:
        try:
            script(cluster)
        except Violation as found:
            return str(found)
        return cluster.world.violation
