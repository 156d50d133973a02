"""A consumer in a process of its own, stopped for longer than its session, or killed: others fetch on."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.coordinator.control_plane import ControlPlane, eventually
from tests.integration.sdk.brokers import LoneBroker
from tests.integration.sdk.conftest import PARTITIONS
from tests.integration.sdk.processes import (
    ConsumerProcess,
    check,
    commits_gone_back,
    consumed,
    watch_commits,
)

SHORT_MS = 4_000
StartConsumer = Callable[..., ConsumerProcess]


class Records:
    """The values that were produced so far, 5 for each partition a time."""

    def __init__(self, topic: LoneBroker) -> None:
        self._topic = topic.topic
        self._producer = Producer({"bootstrap.servers": topic.address, "linger.ms": 0, "log_level": 0})
        self.values: set[str] = set()

    def produce(self) -> None:
        first = len(self.values) // PARTITIONS
        for partition in range(PARTITIONS):
            for number in range(first, first + 5):
                value = f"{partition}-{number}"
                self._producer.produce(self._topic, value.encode(), partition=partition)
                self.values.add(value)
        assert self._producer.flush(60) == 0


@pytest.fixture
def records(topic: LoneBroker) -> Records:
    return Records(topic)


@pytest.fixture
def start(plane: ControlPlane, topic: LoneBroker, group: str, tmp_path: Path) -> Iterator[StartConsumer]:
    """Starts consumers of `group`; whatever still runs at the end is killed."""
    watch_commits(plane)
    started: list[ConsumerProcess] = []

    def start_one(consumer_id: str, session_timeout_ms: int = 30_000) -> ConsumerProcess:
        started.append(ConsumerProcess(plane, topic, group, consumer_id, tmp_path, session_timeout_ms))
        return started[-1]

    yield start_one
    for consumer in started:
        consumer.stop()


def shares(plane: ControlPlane, group: str) -> dict[str, set[int]]:
    """The partitions of each consumer, of those that run."""
    found: dict[str, set[int]] = {}
    for partition, owner in plane.owners(group).items():
        found.setdefault(owner, set()).add(partition)
    return found


def both_consume(
    plane: ControlPlane, group: str, records: Records, ann: ConsumerProcess, ben: ConsumerProcess
) -> None:
    """Each has two partitions, and all that was produced is consumed and committed."""
    records.produce()
    eventually(lambda: sorted(map(len, shares(plane, group).values())) == [2, 2], "each has its share")
    records.produce()
    eventually(lambda: consumed((ann, ben)) == records.values, "everything is consumed")
    ends = dict.fromkeys(range(PARTITIONS), len(records.values) // PARTITIONS)
    eventually(lambda: plane.committed(group) == ends, "everything is committed")


def test_a_consumer_that_was_stopped_for_longer_than_its_session_commits_nothing_when_it_wakes(
    plane: ControlPlane, group: str, records: Records, start: StartConsumer
) -> None:
    ann, ben = start("ann", SHORT_MS), start("ben")
    both_consume(plane, group, records, ann, ben)
    old_tenures = {(fact.partition, fact.tenure) for fact in ann.facts()}
    ann.hold()
    records.produce()
    eventually(lambda: ann.facts("holding"), "ann has a record in hand")
    [held] = ann.facts("holding")

    ann.pause()
    eventually(lambda: shares(plane, group) == {"ben": set(range(PARTITIONS))}, "ben has everything")
    causes = plane.query("SELECT cause FROM journal WHERE key = %s AND cause LIKE 'ann: %%'", group)
    assert causes and all(str(cause).startswith("ann: session over") for (cause,) in causes)
    eventually(lambda: consumed([ben]) >= {held.value}, "ben consumes what ann has in hand")
    records.produce()
    eventually(lambda: consumed((ann, ben)) == records.values, "every partition is fetched again")
    committed_by_ann = ann.facts("committed")

    ann.resume()
    ann.release()
    eventually(lambda: ann.facts("refused"), "ann's commit is refused")
    refused = ann.facts("refused")[0]
    assert (refused.value, refused.lost) == (held.value, (held.partition,))
    eventually(lambda: sorted(map(len, shares(plane, group).values())) == [2, 2], "ann has a share again")
    records.produce()
    eventually(lambda: consumed((ann, ben)) == records.values, "everything is consumed")
    news = ann.facts("committed")[len(committed_by_ann) :]
    assert not old_tenures & {(fact.partition, fact.tenure) for fact in news}
    later = [fact for fact in ann.facts("consumed") if fact.at > refused.at]
    assert not old_tenures & {(fact.partition, fact.tenure) for fact in later}
    check((ann, ben))
    assert commits_gone_back(plane, group) == []


def test_a_consumer_that_was_killed_is_followed_by_the_others(
    plane: ControlPlane, group: str, records: Records, start: StartConsumer
) -> None:
    ann, ben = start("ann", SHORT_MS), start("ben")
    both_consume(plane, group, records, ann, ben)
    ann.hold()
    records.produce()
    eventually(lambda: ann.facts("told"), "ann's pings say how far it is, with a record in hand")
    [held] = ann.facts("holding")
    ann.kill()
    records.produce()
    eventually(lambda: shares(plane, group) == {"ben": set(range(PARTITIONS))}, "ben has everything")
    eventually(lambda: consumed([ben]) >= {held.value}, "ben consumes what ann had in hand")
    eventually(lambda: consumed((ann, ben)) == records.values, "every partition is fetched again")
    ends = dict.fromkeys(range(PARTITIONS), len(records.values) // PARTITIONS)
    eventually(lambda: plane.committed(group) == ends, "everything is committed")
    check((ann, ben))
    assert commits_gone_back(plane, group) == []
