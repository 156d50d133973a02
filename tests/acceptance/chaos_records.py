"""This room writes numbered records through chaos, reads them meanwhile, and settles the account afterwards.

librdkafka writes `orders`, Java's producer writes `clicks`, both idempotent, with acks=all and endless
retries; a group reads both topics all along.
"""

import json
import logging
import subprocess
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from muster.kafkawire import batches
from tests.acceptance.chaos_cluster import PARTITIONS, PATIENCE_S, TOPICS, ChaosCluster
from tests.acceptance.members import java, missing

DELIVERY_TIMEOUT_MS: Final = 180_000
"""Nothing is given up while chaos lasts."""

BETWEEN_RECORDS_S: Final = 0.003
FILLING: Final = b"." * 200
"""Makes segments end."""

MOST_TOLD: Final = 60
"""Lines of one replica that a failure tells."""


class Place(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


class Writer:
    """librdkafka's producer in a thread; who was acknowledged lies where it says.

    What it says of its epochs and retries lies in the folder, in `<topic>.librdkafka.log`.
    """

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self.acknowledged: dict[Place, bytes] = {}
        self.implied: list[tuple[int, bytes]] = []
        """Partition and value of what librdkafka knows to be stored as a later batch is, and not where."""
        self.refused: list[str] = []
        self.sent = 0
        self.topic = topic
        self._ending = threading.Event()
        self._notes = logging.FileHandler(folder / f"{topic}.librdkafka.log")
        self._notes.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        notes = logging.Logger(topic)
        notes.addHandler(self._notes)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 20,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 500,
                "debug": "eos",
            },
            logger=notes,
        )
        self._thread = threading.Thread(target=self._run, name=f"writes {topic}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.wait(BETWEEN_RECORDS_S):
            number = self.sent
            self._producer.produce(
                self.topic,
                value=b"%d %s" % (number, FILLING),
                partition=number % PARTITIONS,
                on_delivery=self._told,
            )
            self.sent += 1
            self._producer.poll(0)

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.refused.append(str(error))
        elif message.offset() is None:
            self.implied.append((message.partition(), message.value()))
        else:
            place, value = lies_at(message)
            assert place not in self.acknowledged, f"two records are said to lie at {place}"
            self.acknowledged[place] = value

    @property
    def written(self) -> int:
        """How many are acknowledged."""
        return len(self.acknowledged) + len(self.implied)

    def end(self) -> None:
        """Return when everything is acknowledged or refused."""
        self._ending.set()
        self._thread.join()
        left = self._producer.flush(PATIENCE_S)
        assert left == 0, f"{left} of {self.sent} records were neither acknowledged nor refused"

    def give_up(self) -> None:
        """What is not acknowledged is dropped."""
        self._ending.set()
        self._thread.join()
        self._producer.purge()
        self._notes.close()


class JavaWriter:
    """Kafka's own VerifiableProducer; its values count up, and it tells of each acknowledgement."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self.acknowledged: dict[Place, bytes] = {}
        self.implied: list[tuple[int, bytes]] = []
        self.refused: list[str] = []
        self.topic = topic
        settings = folder / "producer.properties"
        settings.write_text(
            "enable.idempotence=true\nretries=2147483647\nlinger.ms=2\nbatch.size=4000\n"
            f"delivery.timeout.ms={DELIVERY_TIMEOUT_MS}\nreconnect.backoff.max.ms=500\n",
            encoding="utf-8",
        )
        words = ["--bootstrap-server", bootstrap, "--topic", topic, "--acks", "-1", "--throughput", "100"]
        self._errors = (folder / "java.err").open("wb")
        self._process = subprocess.Popen(
            [*java(), "org.apache.kafka.tools.VerifiableProducer", *words, "--command-config", str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._thread = threading.Thread(target=self._hear, name="hears Java", daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as told:
            for line in told:
                fact = json.loads(line) if line.startswith("{") else {}
                if fact.get("name") == "producer_send_success":
                    place = Place(fact["topic"], fact["partition"], fact["offset"])
                    assert place not in self.acknowledged, f"two records are said to lie at {place}"
                    self.acknowledged[place] = fact["value"].encode()
                elif fact.get("name") == "producer_send_error":
                    self.refused.append(line)

    @property
    def written(self) -> int:
        """How many are acknowledged."""
        return len(self.acknowledged)

    @property
    def sent(self) -> int:
        """Nothing is outstanding once it has ended."""
        return len(self.acknowledged) + len(self.refused)

    def end(self) -> None:
        """SIGTERM: it sends what it has, and ends."""
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._thread.join(PATIENCE_S)

    def give_up(self) -> None:
        """What is not acknowledged is dropped."""
        self._process.kill()
        self._process.wait(PATIENCE_S)
        self._thread.join(PATIENCE_S)
        self._errors.close()


class Reader:
    """A member of a group that reads both topics in a thread, commits, and remembers what it saw where."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: dict[Place, bytes] = {}
        self.disorder: list[str] = []
        self._ending = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "session.timeout.ms": 30_000,
                "check.crcs": True,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._consumer.subscribe(list(TOPICS))
        self._thread = threading.Thread(target=self._run, name="reads", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            message = self._consumer.poll(0.2)
            if message is None:
                continue
            if (error := message.error()) is not None:
                self.disorder += [] if error.retriable() else [str(error)]
                continue
            place, value = lies_at(message)
            if self.seen.setdefault(place, value) != value:
                self.disorder.append(f"{place} held {self.seen[place]!r}, and then {value!r}")

    def end(self) -> None:
        self._ending.set()
        self._thread.join()
        self._consumer.close()


class Account:
    """Who writes and reads, and what must be true of it."""

    def __init__(self, cluster: ChaosCluster, folder: Path) -> None:
        self._cluster = cluster
        self.writers: tuple[Writer | JavaWriter, ...] = (
            Writer(cluster.bootstrap, "orders", folder),
            Writer(cluster.bootstrap, "clicks", folder)
            if missing("java")
            else JavaWriter(cluster.bootstrap, "clicks", folder),
        )
        self.reader = Reader(cluster.bootstrap)

    def wait_goes_on(self, what: str, records: int = 50) -> None:
        """Each writer is acknowledged more, and the reader reads what was written from now on."""
        marks = [writer.written + records for writer in self.writers]
        for writer, mark in zip(self.writers, marks, strict=True):
            self._cluster.await_true(
                partial(_has_written, writer, mark), f"{writer.topic} is written {what}", PATIENCE_S
            )
        mark = len(self.reader.seen)
        self._cluster.await_true(
            lambda: len(self.reader.seen) >= mark + records, f"both are read {what}", PATIENCE_S
        )

    def settle(self) -> None:
        """Everything acknowledged is there once, in order, on every replica, byte for byte."""
        for writer in self.writers:
            writer.end()
            assert writer.refused == []
        self._cluster.wait_whole("at the end")
        found: dict[Place, bytes] = {}
        for topic in TOPICS:
            self._cluster.await_true(
                partial(self._replicas_are_equal, topic), f"the replicas of {topic} are equal"
            )
            found.update(whole_log(self._cluster.bootstrap, topic))
        for writer in self.writers:
            wrong = sorted(at for at, value in writer.acknowledged.items() if found.get(at) != value)
            assert not wrong, (
                f"{len(wrong)} acknowledged records are lost, or are others: {wrong[:5]}"
                + self._stored_around(wrong[0], wrong[0].offset)
            )
            stored = {(at.partition, value) for at, value in found.items() if at.topic == writer.topic}
            assert stored.issuperset(writer.implied)
        for first, place, text in doubled(found):
            raise AssertionError(text + self._stored_around(place, first.offset))
        for writer in self.writers:
            assert writer.written == writer.sent
        # Nothing was written that was not acknowledged.
        assert len(found) == sum(writer.sent for writer in self.writers)
        self._cluster.await_true(
            lambda: len(self.reader.seen) >= len(found), "everything is read", PATIENCE_S
        )
        assert self.reader.seen == found
        assert self.reader.disorder == []

    def _replicas_are_equal(self, topic: str) -> bool:
        """Byte for byte. A log that lies where it is not assigned any more is nobody's replica."""
        for number, row in self._cluster.partitions(topic).items():
            logs = self._cluster.logs(topic, number)
            replicas = [logs.get(broker, b"") for broker in row["assigned"]]
            if not replicas[0] or replicas.count(replicas[0]) != len(replicas):
                return False
        return True

    def _stored_around(self, place: Place, first: int) -> str:
        """The batches from that of offset `first` to the one behind `place`, as each replica stores them."""
        told: dict[str, list[int]] = {}
        for broker, stored in self._cluster.logs(place.topic, place.partition).items():
            headers = (header for _, header in batches.headers(stored))
            near = [header for header in headers if header.next_offset > first]
            behind = sum(header.base_offset <= place.offset for header in near) + 1
            told.setdefault("\n".join(map(told_of, near[: min(behind, MOST_TOLD)])), []).append(broker)
        row = self._cluster.partitions(place.topic)[place.partition]
        replicas = "".join(f"\nbrokers {brokers}:\n{batches_of}" for batches_of, brokers in told.items())
        return f"\n{place.topic}-{place.partition}: {row}{replicas}"

    def end(self) -> None:
        """Whatever happened, nobody goes on."""
        self.reader.end()
        for writer in self.writers:
            writer.give_up()


def _has_written(writer: Writer | JavaWriter, records: int) -> bool:
    return writer.written >= records


def lies_at(message: Message) -> tuple[Place, bytes]:
    """Where a record lies, and its value."""
    topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
    assert topic is not None and partition is not None and offset is not None and value is not None
    return Place(topic, partition, offset), value


def whole_log(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> dict[Place, bytes]:
    """Each record of a topic, as a consumer is served it."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "audit", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True, "check.crcs": True, "log_level": 0})
    found: dict[Place, bytes] = {}
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        left = set(range(partitions))
        while left:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"partitions {left} of {topic} have no end"
            if (error := message.error()) is None:
                place, value = lies_at(message)
                assert place not in found, f"{place} is served twice"
                found[place] = value
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition() or 0)
    finally:
        consumer.close()
    return found


def told_of(header: batches.BatchHeader) -> str:
    """A batch's place, who led, and where it stands in its producer's sequence."""
    return (
        f"  offsets {header.base_offset} to {header.next_offset - 1} in leader epoch {header.leader_epoch}:"
        f" producer {header.producer_id}, epoch {header.producer_epoch},"
        f" sequences {header.base_sequence} to {header.last_sequence}"
    )


def doubled(found: Mapping[Place, bytes]) -> Iterator[tuple[Place, Place, str]]:
    """Where the numbers of a partition do not rise, and the first place that holds as high a number.

    None: nothing is there twice, nothing overtook another.
    """
    before: dict[tuple[str, int], list[tuple[int, Place]]] = {}
    for place in sorted(found):
        number = int(found[place].split()[0])
        lower = before.setdefault((place.topic, place.partition), [])
        if lower and number <= lower[-1][0]:
            reached = next(one for one in lower if one[0] >= number)
            yield (
                reached[1],
                place,
                f"{place} holds {number} behind {lower[-1][0]}, and {reached[1]} held {reached[0]}",
            )
        lower.append((number, place))
