"""Two instances of a Kafka Streams application count words; one is killed, and the other goes on."""

import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource, ConfigSource
from confluent_kafka.admin._resource import ResourceType

from tests.acceptance.kafka_tools import Tools
from tests.acceptance.members import PATIENCE_S, java, missing, until
from tests.acceptance.story import Stack, create, running_stack

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(missing("java")), reason=missing("java")),
]
PARTITIONS: Final = 4
LINES: Final = [f"pears figs fruit-{number % 9} fruit-{number % 7}" for number in range(400)]
REPARTITIONED: Final = "counting-words-repartition"
CHANGELOG: Final = "counting-counts-changelog"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two nodes and one broker, the lines in `orders`, their counts in `ordered`."""
    with running_stack(tmp_path_factory.mktemp("stack") / "home") as told:
        for topic in ("orders", "ordered"):
            create(told["bootstrap"], topic, PARTITIONS)
        yield told


class Instance:
    """A process of the application, and what it has told."""

    def __init__(self, stack: Stack, application: str, name: str, folder: Path, *settings: str) -> None:
        self._told = folder / f"{application}-{name}.out"
        words = [stack["bootstrap"], application, "orders", "ordered", *settings]
        words.append(f"state.dir={folder / name}")
        with self._told.open("wb") as told:
            self.process = subprocess.Popen([*java(), "WordCount", *words], stdout=told, stderr=told)

    @property
    def told(self) -> list[str]:
        return self._told.read_text(encoding="utf-8", errors="replace").splitlines()

    @property
    def runs(self) -> bool:
        """It has some of the counts, and has restored them, though they be none yet."""
        told = self.told
        assert self.process.poll() is None, told
        has_some = any(line.startswith("restored ") for line in told)
        return has_some and [line for line in told if line.startswith("state ")][-1] == "state RUNNING"

    @property
    def restored(self) -> int:
        """How many records of the changelog it has read."""
        return sum(int(line.split()[2]) for line in self.told if line.startswith("restored "))


@contextmanager
def instances(stack: Stack, folder: Path, *names: str) -> Iterator[list[Instance]]:
    """They commit often, and purge at once what they have read of their own topics.

    Ben is missed soon; whoever is killed besides is still a member when Kafka's tool is done with it.
    """
    settings = {
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 500,
        "commit.interval.ms": 100,
        "repartition.purge.interval.ms": 100,
    }
    words = [f"{key}={value}" for key, value in settings.items()]
    started: list[Instance] = []
    try:
        for name in names:
            session_ms = 6_000 if name == "ben" else 120_000
            started.append(
                Instance(stack, "counting", name, folder, *words, f"session.timeout.ms={session_ms}")
            )
        yield started
    finally:
        for one in started:
            one.process.kill()
            one.process.wait()


def write(stack: Stack, lines: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": stack["bootstrap"], "enable.idempotence": True})
    for number, line in enumerate(lines):
        producer.produce("orders", partition=number % PARTITIONS, value=line)
    assert producer.flush(PATIENCE_S) == 0


class Reader:
    """Reads the counts from the beginning on."""

    def __init__(self, stack: Stack) -> None:
        self.counts: dict[str, int] = {}
        self._consumer = Consumer({"bootstrap.servers": stack["bootstrap"], "group.id": "reader"})
        self._consumer.assign([TopicPartition("ordered", number, 0) for number in range(PARTITIONS)])

    def has(self, lines: Sequence[str]) -> bool:
        """What was counted is what these lines have."""
        for record in self._consumer.consume(10_000, timeout=0.2):
            key, value = record.key(), record.value()
            assert record.error() is None and key and value
            self.counts[key.decode()] = int(value)
        return self.counts == Counter(word for line in lines for word in line.split())

    def close(self) -> None:
        self._consumer.close()


def everything_is_committed(stack: Stack) -> bool:
    """Nothing would be counted twice if somebody died now."""
    consumer = Consumer({"bootstrap.servers": stack["bootstrap"], "group.id": "counting"})
    try:
        asked = [
            TopicPartition(topic, number)
            for topic in ("orders", REPARTITIONED)
            for number in range(PARTITIONS)
        ]
        committed = consumer.committed(asked, timeout=PATIENCE_S)
        ends = [consumer.get_watermark_offsets(one, timeout=PATIENCE_S)[1] for one in asked]
        return [max(one.offset, 0) for one in committed] == ends
    finally:
        consumer.close()


def is_purged(stack: Stack) -> bool:
    """Nothing is left of what the application sent to itself."""
    consumer = Consumer({"bootstrap.servers": stack["bootstrap"], "group.id": "reader"})
    try:
        asked = [TopicPartition(REPARTITIONED, number) for number in range(PARTITIONS)]
        marks = [consumer.get_watermark_offsets(one, timeout=PATIENCE_S) for one in asked]
        return all(low == high > 0 for low, high in marks)
    finally:
        consumer.close()


def configs(stack: Stack, topic: str) -> dict[str, str]:
    """What the application asked for when it created the topic."""
    admin = AdminClient({"bootstrap.servers": stack["bootstrap"]})
    [told] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {
        name: entry.value
        for name, entry in told.result(PATIENCE_S).items()
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    }


def test_who_is_left_restores_the_counts_and_goes_on(stack: Stack, tmp_path: Path) -> None:
    half = len(LINES) // 2
    reader = Reader(stack)
    with instances(stack, tmp_path, "ann", "ben") as (ann, ben):
        until(lambda: ann.runs and ben.runs, "both run")
        write(stack, LINES[:half])
        until(lambda: reader.has(LINES[:half]), "half of the lines are counted")
        until(lambda: everything_is_committed(stack), "and committed")
        before = ann.restored
        ben.process.kill()
        ben.process.wait()
        write(stack, LINES[half:])
        until(lambda: reader.has(LINES), "all lines are counted")
        assert ann.restored > before, "what ben had counted came from the changelog"
        until(lambda: is_purged(stack), "what has been read of the application's own topic is deleted")
        assert configs(stack, CHANGELOG)["cleanup.policy"] == "compact"
        asked = configs(stack, REPARTITIONED)
        assert (asked["cleanup.policy"], asked["retention.ms"]) == ("delete", "-1")
    reader.close()
    with Tools(stack["bootstrap"]) as tools:
        # Whose session is not over is still a member, and is removed.
        words = ("--application-id", "counting", "--input-topics", "orders", "--force")
        said = tools.run("StreamsResetter", *words)
        assert said.status == 0, said.text
        # Whichever door tells of topics may not have heard of it yet.
        until(partial(_lacks, tools, {CHANGELOG, REPARTITIONED}), "the application's own topics are gone")
        described = tools.groups("--describe", "--group", "counting").rows("counting")
        assert [row[3] for row in described if row[1] == "orders"] == ["0"] * PARTITIONS


def _lacks(tools: Tools, topics: set[str]) -> bool:
    """None of these topics is there."""
    return topics.isdisjoint(tools.run("TopicCommand", "--list").text.split())


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("processing.guarantee=exactly_once_v2", "transactions are not served"),
        ("group.protocol=streams", "The cluster does not support the STREAMS group protocol"),
    ],
)
def test_what_is_not_served_ends_the_application_with_the_reason(
    stack: Stack, tmp_path: Path, setting: str, why: str
) -> None:
    refused = Instance(stack, f"refused-{setting.partition('=')[0]}", "ann", tmp_path, setting)
    try:
        assert refused.process.wait(PATIENCE_S) == 1, refused.told
        assert any(why in line for line in refused.told), refused.told
    finally:
        refused.process.kill()
