"""Kafka Connect and MirrorMaker 2, unmodified: workers share what they do, and clusters are moved by them."""

import json
import os
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource, ConfigSource
from confluent_kafka.cimpl import NewTopic

from tests.acceptance.apache_kafka import apache_kafka
from tests.acceptance.connect import FILE_SINK, FILE_SOURCE, GROUP, Worker, mirror_maker, workers
from tests.acceptance.members import PATIENCE_S, comes_true, missing, until
from tests.acceptance.story import Stack, running_stack

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(missing("java")), reason=missing("java")),
]
SOURCES = {"orders-of-ann": 1, "orders-of-ben": 1, "orders-of-cleo": 1}
ALL = {**SOURCES, "warehouse": 3}
"""How many tasks each connector has."""
PARTITIONS = 3
STALLED_S, BATCHES = PATIENCE_S / 4, 4
"""A group that stands still for so long moves on with more records; these many batches at most."""
KNOWN = {"cleanup.policy": "compact,delete", "retention.ms": "604800001", "compression.type": "lz4"}
"""Configs that both kinds of clusters obey."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two nodes and three brokers."""
    with running_stack(tmp_path_factory.mktemp("stack") / "home", brokers=3) as told:
        yield told


class Files:
    """What sources read, a file each, and the one into which the sink writes."""

    def __init__(self, folder: Path) -> None:
        self.sources = {name: folder / f"{name}.txt" for name in SOURCES}
        self.sink = folder / "warehouse.txt"
        self._lines = 0

    def write(self) -> None:
        """A hundred more lines to each source."""
        for name, path in self.sources.items():
            with path.open("a", encoding="utf-8") as file:
                file.writelines(f"{name} {number}\n" for number in range(self._lines, self._lines + 100))
        self._lines += 100

    def written(self) -> Counter[str]:
        """How often the sink has written each line."""
        return Counter(self.sink.read_text("utf-8").splitlines() if self.sink.exists() else ())

    def arrived(self) -> bool:
        """Whether it has written all lines."""
        return self.written().keys() >= {line for name in self.sources for line in self.lines(name)}

    def lines(self, source: str) -> list[str]:
        """What this source has read, or will."""
        return [f"{source} {number}" for number in range(self._lines)]


def all_run(worker: Worker, among: Iterable[Worker]) -> bool:
    """Whether all connectors run, and these workers, no other, have tasks."""
    if set(worker.places()) != {one.worker_id for one in among}:
        return False
    return all(worker.runs(name, tasks) for name, tasks in ALL.items())


def test_workers_share_connectors_and_one_that_is_killed_costs_no_record(
    stack: Stack, tmp_path: Path
) -> None:
    files = Files(tmp_path)
    files.write()
    created = {"topic_creation_default_replication_factor": 3, "topic_creation_default_partitions": 3}
    with workers(stack["bootstrap"], tmp_path, "ann", "ben", "cleo") as (ann, ben, cleo):
        for name, path in files.sources.items():
            ann.put(name, connector_class=FILE_SOURCE, file=path, topic="parcels", **created)
        ben.put("warehouse", connector_class=FILE_SINK, tasks_max=3, file=files.sink, topics="parcels")
        until(lambda: all_run(ann, (ann, ben, cleo)), "all three have tasks")
        until(files.arrived, "all lines arrived")

        cleo.kill()
        files.write()
        until(lambda: all_run(ann, (ann, ben)), "both have the tasks of the third")
        until(files.arrived, "all lines arrived")
        assert type_of(stack, GROUP) == "connect"
        assert type_of(stack, "connect-warehouse") == "consumer"

        before, lines = files.written(), files.lines("orders-of-ann")
        ben.ask("/connectors/orders-of-ann/stop", "PUT")
        until(lambda: set(ann.states("orders-of-ann")) == {"STOPPED"}, "it is stopped")
        ann.ask("/connectors/orders-of-ann/offsets", "DELETE")
        ann.ask("/connectors/orders-of-ann/resume", "PUT")
        until(lambda: (files.written() - before).keys() >= set(lines), "all it has read comes again")


def type_of(stack: Stack, group: str) -> str:
    """What its members say they are."""
    question = urllib.request.Request(f"{stack['rest']}groups/{group}")
    question.add_header("Authorization", f"Bearer {stack['token']}")
    with urllib.request.urlopen(question, timeout=PATIENCE_S) as answer:
        return str(json.load(answer)["protocol_type"])


class Side:
    """A cluster of either kind, as its producers and consumers see it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create(self, topic: str) -> None:
        made = NewTopic(topic, PARTITIONS, 1, config=KNOWN)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([made])[topic].result()

    def write(self, topic: str, first: int, last: int) -> None:
        """These numbers, each with a key and a header; every tenth is a tombstone."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for number in range(first, last):
            value = b"box" if number % 10 else None
            key = b"customer-%d" % (number % 97)
            producer.produce(topic, key=key, value=value, headers={"number": b"%d" % number})
        assert producer.flush(PATIENCE_S) == 0

    def read(self, group: str, topic: str, first: int, last: int) -> None:
        """Read exactly these numbers as a member of the group, commit, and leave."""
        settings: dict[str, Any] = {"group.id": group, "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "enable.auto.commit": False, **settings})
        consumer.subscribe([topic])
        numbers: list[int] = []

        def read_all() -> bool:
            for record in consumer.consume(500, timeout=0.2):
                assert record.error() is None, record.error()
                number = int(dict(record.headers() or ())["number"] or b"")
                assert record.key() == b"customer-%d" % (number % 97)
                assert record.value() == (b"box" if number % 10 else None)
                numbers.append(number)
            return len(numbers) >= last - first

        until(read_all, f"{group} has read {topic}")
        assert sorted(numbers) == list(range(first, last))
        consumer.commit(asynchronous=False)
        consumer.close()

    def has_read(self, group: str, topic: str, count: int) -> bool:
        """Whether it has read so many records, by what it committed."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        told = consumer.committed(asked, timeout=PATIENCE_S)
        consumer.close()
        return sum(max(one.offset, 0) for one in told) == count

    def holds(self, topic: str, count: int) -> bool:
        """Whether there are so many records in a topic that is there."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "counting", "log_level": 0})
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=PATIENCE_S)[1]
            for number in range(PARTITIONS)
        ]
        consumer.close()
        return sum(ends) == count

    def configs(self, topic: str) -> dict[str, str]:
        """Those that somebody set for the topic."""
        asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        told = admin.describe_configs([asked])[asked].result(PATIENCE_S)
        return {
            name: one.value
            for name, one in told.items()
            if one.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }


@pytest.mark.skipif("WHOLE" not in os.environ, reason="`make clients` runs it: two JVMs of Kafka's are dear")
def test_topics_records_and_groups_are_moved_from_apache_kafka_and_back(stack: Stack, tmp_path: Path) -> None:
    """By one MirrorMaker 2: `orders` with its group move here, `clicks` with its own there."""
    with apache_kafka(tmp_path / "kafka") as bootstrap:
        sides = {"kafka": Side(bootstrap), "muster": Side(stack["bootstrap"])}
        moves = [("orders", "shipping", "kafka", "muster"), ("clicks", "billing", "muster", "kafka")]
        settings = {"refresh.topics.interval.seconds": "1"}
        for topic, group, old, new in moves:
            sides[old].create(topic)
            sides[old].write(topic, 0, 300)
            sides[old].read(group, topic, 0, 300)
            flow = f"{old}->{new}"
            settings |= {f"{flow}.enabled": "true", f"{flow}.topics": topic, f"{flow}.groups": group}
        with mirror_maker(tmp_path, {name: one.bootstrap for name, one in sides.items()}, settings) as lives:

            def wait(condition: Callable[[], bool], what: str) -> None:
                until(lambda: lives() and condition(), what)

            def moved(topic: str, group: str, old: str, new: str) -> int:
                """How many records the group has read by both sides, once that is all that there are.

                A source task that begins again, as where processes were held, forgets which offsets it was
                about to tell, and tells others with the next records: a group at the end waits for these.
                """

                def has_read(count: int) -> bool:
                    return lives() and sides[new].has_read(group, topic, count)

                for count in range(300, 300 + 30 * BATCHES, 30):
                    if comes_true(partial(has_read, count), STALLED_S):
                        return count
                    sides[old].write(topic, count, count + 30)
                    sides[old].read(group, topic, count, count + 30)
                raise AssertionError(
                    f"{group} has not moved: {(tmp_path / 'mirror.out').read_text()[-4000:]}"
                )

            ends = {}
            for topic, group, old, new in moves:
                ends[topic] = end = moved(topic, group, old, new)
                sides[old].write(topic, end, end + 30)
                wait(partial(sides[new].holds, topic, end + 30), f"{topic} has moved")
        for topic, group, _, new in moves:
            sides[new].read(group, topic, ends[topic], ends[topic] + 30)
            assert sides[new].configs(topic).items() >= KNOWN.items()
