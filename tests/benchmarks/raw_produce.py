"""This room measures Produce requests as they are, of a broker's data plane beside Apache Kafka: prebuilt
batches of one record of 100 bytes, and of fifteen of 1 KiB, acks=1, on 64 connections.

The load generator is `frame_load.c`; each answer is compared, but for where the records came to lie.
"""

import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from muster.kafkawire.api_table import (
    ApiKey,
    build,
    encode_reply,
    encode_request,
    part,
    request_class,
    response_class,
)
from tests.benchmarks.frame_load import Question
from tests.benchmarks.group_doors import HEAD, closed_loops
from tests.benchmarks.planes import cpu_seconds
from tests.benchmarks.produce_consume import ApacheKafka, Contestant, apache_kafka, kafka_libraries, muster
from tests.benchmarks.raw_kafka_member import places_of
from tests.unit.kafkawire.made_batches import made_batch

VERSION = 9
CONNECTIONS, PARTITIONS = 64, 8
_ANY = -(2**62)
KINDS = ((100, 1, 1, 2.0), (100, 1, 5, 2.0), (1024, 15, 1, 0.7), (1024, 15, 5, 0.7))
"""Bytes of a record, records of a batch, requests in flight on each connection, seconds of a window."""


@dataclass
class Broker:
    """One that is measured (group_doors.Measured)."""

    contestant: Contestant

    @property
    def name(self) -> str:
        return self.contestant.name

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.contestant.bootstrap.rpartition(":")
        return host, int(port)

    @property
    def is_kafka(self) -> bool:
        return isinstance(self.contestant, ApacheKafka)

    def cpu_s(self) -> float:
        return cpu_seconds(self.contestant.process.pid)

    def memory_mb(self) -> float:
        return self.contestant.resident_mb()

    def late_lines(self) -> int:
        return 0


def produce(topic: str, partition: int, records: bytes, acks: int = 1) -> Question:
    """Produce, and the answer that they are stored, wherever."""
    key = ApiKey.PRODUCE
    shape, answered = request_class(key, VERSION), response_class(key, VERSION)
    data = part(shape, "PartitionProduceData")(index=partition, records=records)
    body = shape(
        transactional_id=None,
        acks=acks,
        timeout=timedelta(seconds=30),
        topic_data=(part(shape, "TopicProduceData")(name=topic, partition_data=(data,)),),
    )
    one = build(
        part(answered, "PartitionProduceResponse"),
        index=partition,
        error_code=0,
        base_offset=_ANY,
        log_append_time=None,
        log_start_offset=0,
        record_errors=(),
        error_message=None,
    )
    told = part(answered, "TopicProduceResponse")(name=topic, partition_responses=(one,))
    answer = encode_reply(key, VERSION, 0, build(answered, responses=(told,)))
    asked = encode_request(key, VERSION, 0, "bench", body)
    return Question(asked, answer, any_at=tuple(places_of(answer, struct.pack(">q", _ANY))))


@contextmanager
def brokers(home: Path) -> Iterator[list[Broker]]:
    """Both, running all the time; their folders are made under `home` and removed."""
    libraries = kafka_libraries(home)
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="raw-produce-", dir=home)).resolve()
    try:
        for name in ("muster", "kafka"):
            (folder / name).mkdir()
        with muster(folder / "muster") as ours:
            if libraries is None:
                yield [Broker(ours)]
            else:
                with apache_kafka(folder / "kafka", libraries) as theirs:
                    yield [Broker(ours), Broker(theirs)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(home: Path) -> list[str]:
    """The table's lines."""
    lines = [
        f"Produce, acks=1, {CONNECTIONS} connections, {PARTITIONS} partitions, prebuilt batches; requests",
        f"{'records':<11}{'in flight':<11}{HEAD}{'MB/s':>8}",
    ]
    with brokers(home) as doors:
        for size, count, in_flight, window_s in KINDS:
            topic = f"raw-{size}-{count}-{in_flight}"
            records = bytes(made_batch([bytes(size)] * count, timestamp_ms=int(time.time() * 1000)))
            for door in doors:
                door.contestant.new_topic(topic, PARTITIONS)
            asked = [produce(topic, number % PARTITIONS, records) for number in range(CONNECTIONS)]
            found = closed_loops(home, doors, [asked for _ in doors], in_flight, window_s)
            lines += [
                f"{f'{count} x {size}':<11}{in_flight:<11}{one.columns(found[-1])}"
                f"{one.rate * count * size / 1e6:>8.0f}"
                for one in found
            ]
    return lines


def main() -> None:
    """`python -m tests.benchmarks.raw_produce`"""
    print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
