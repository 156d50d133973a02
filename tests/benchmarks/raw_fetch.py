"""This room measures fetches of 1 MiB of cached data, of a broker's data plane beside Apache Kafka, and what
a fetch of 1,000 partitions costs that finds nothing new, whole and by a session.

The load generator is `frame_load.c`. The head of each answer is compared with that of the first, which was
read whole.
"""

import os
import socket
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from muster.kafkawire.api_table import (
    ApiKey,
    build,
    encode_request,
    part,
    read_body,
    reply_body_start,
    request_class,
    response_class,
)
from tests.benchmarks.frame_load import Question, answer_of
from tests.benchmarks.group_doors import HEAD, closed_loops
from tests.benchmarks.raw_produce import VERSION as PRODUCE_VERSION
from tests.benchmarks.raw_produce import Broker, brokers, produce
from tests.unit.kafkawire.made_batches import made_batch

VERSION: Final = 12
"""The last that names topics by name."""
TOPIC, WIDE = "fetched", "wide"
BATCH_BYTES, BATCHES = 64 * 1024, 16
"""Together 1 MiB, so that both brokers answer whole batches."""
HEAD_BYTES: Final = 64
KINDS = ((1, 1), (1, 2), (1, 8), (16, 1))
"""Connections, requests in flight on each."""
WINDOW_S: Final = 1.5
PARTITIONS: Final = 1_000
ROUNDS: Final = 300
"""Whole fetches; there are twenty times as many by session."""


def fetch(
    topic: str,
    partitions: int,
    max_bytes: int = 1,
    session: tuple[int, int] = (0, -1),
    *,
    is_empty: bool = False,
) -> bytes:
    """The frame of a fetch of each partition from its beginning; `session` is (id, epoch)."""
    shape = request_class(ApiKey.FETCH, VERSION)
    asked = tuple(
        build(
            part(shape, "FetchPartition"),
            partition=number,
            current_leader_epoch=-1,
            fetch_offset=0,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=max_bytes,
        )
        for number in range(partitions)
    )
    topics = (build(part(shape, "FetchTopic"), topic=topic, partitions=asked),) if asked else ()
    body = build(
        shape,
        replica_id=-1,
        max_wait=timedelta(0),
        min_bytes=1,
        max_bytes=max(max_bytes, 1_000_000),
        isolation_level=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
        forgotten_topics_data=(),
        rack_id="",
    )
    return encode_request(ApiKey.FETCH, VERSION, 0, "bench", body)


def read(answer: bytes, key: ApiKey = ApiKey.FETCH, version: int = VERSION) -> Any:
    """The body of an answer."""
    frame = memoryview(answer)[4:]
    return read_body(response_class(key, version), frame, reply_body_start(key, version, frame))


def batch() -> bytes:
    """Of exactly `BATCH_BYTES`."""
    now_ms = int(time.time() * 1000)
    spare = len(made_batch([bytes(BATCH_BYTES)], timestamp_ms=now_ms)) - BATCH_BYTES
    made = bytes(made_batch([os.urandom(BATCH_BYTES - spare)], timestamp_ms=now_ms))
    assert len(made) == BATCH_BYTES
    return made


def _is_refused(produced: Any) -> bool:
    """A topic that was made just now may have no leader yet."""
    return any(int(one.error_code) for topic in produced.responses for one in topic.partition_responses)


def megabyte(door: Broker) -> Question:
    """Fill a partition, and fetch it."""
    door.contestant.new_topic(TOPIC)
    for _ in range(BATCHES):
        asked = produce(TOPIC, 0, batch()).request
        while _is_refused(read(answer_of(*door.address, asked), ApiKey.PRODUCE, PRODUCE_VERSION)):
            time.sleep(0.1)
    asked = fetch(TOPIC, 1, BATCHES * BATCH_BYTES)
    answer = answer_of(*door.address, asked)
    (told,) = read(answer).responses[0].partitions
    assert (int(told.error_code), len(told.records)) == (0, BATCHES * BATCH_BYTES)
    return Question(asked, answer, compared_bytes=HEAD_BYTES)


class Reader:
    """One connection that asks and reads, one fetch after the other."""

    def __init__(self, door: Broker) -> None:
        self._door = door
        self._socket = socket.create_connection(door.address, timeout=30)
        self._answers = self._socket.makefile("rb")

    def ask(self, request: bytes) -> bytes:
        """The whole frame of the answer."""
        self._socket.sendall(request)
        head = self._answers.read(4)
        return head + self._answers.read(int.from_bytes(head, "big"))

    def cpu_us(self, requests: Iterable[bytes]) -> float:
        """What each of them costs the broker."""
        before, count = self._door.cpu_s(), 0
        for request in requests:
            self.ask(request)
            count += 1
        return (self._door.cpu_s() - before) / count * 1e6

    def close(self) -> None:
        """Hang up."""
        self._answers.close()
        self._socket.close()


def idle(door: Broker) -> str:
    """The line of one broker: CPU for each fetch of many idle partitions, whole and by a session."""
    door.contestant.new_topic(WIDE, PARTITIONS)
    whole = fetch(WIDE, PARTITIONS)
    reader = Reader(door)
    try:
        while any(int(one.error_code) for one in read(reader.ask(whole)).responses[0].partitions):
            time.sleep(0.1)
        for _ in range(ROUNDS):
            reader.ask(whole)
        whole_us = reader.cpu_us([whole] * ROUNDS)
        session = read(reader.ask(fetch(WIDE, PARTITIONS, session=(0, 0)))).session_id
        nothing = [fetch(WIDE, 0, session=(session, turn)) for turn in range(1, 20 * ROUNDS)]
        told = read(reader.ask(nothing.pop(0)))
        assert (told.session_id, int(told.error_code), told.responses) == (session, 0, ())
        session_us = reader.cpu_us(nothing)
    finally:
        reader.close()
    return f"{door.name:<13}{whole_us:>11,.0f}{session_us:>13,.1f}{whole_us / session_us:>9,.0f}"


def run(home: Path) -> list[str]:
    """The table's lines."""
    lines = [
        "Fetch of 1 MiB of cached data, one partition; requests",
        f"{'connections':<13}{'in flight':<11}{HEAD}{'MB/s':>8}",
    ]
    with brokers(home) as doors:
        asked = [megabyte(door) for door in doors]
        for connections, in_flight in KINDS:
            questions = [[one] * connections for one in asked]
            found = closed_loops(home, doors, questions, in_flight, WINDOW_S)
            lines += [
                f"{connections:<13}{in_flight:<11}{one.columns(found[-1])}"
                f"{one.rate * BATCHES * BATCH_BYTES / 1e6:>8,.0f}"
                for one in found
            ]
        lines += [
            f"Fetch of {PARTITIONS:,} idle partitions; microseconds of the broker's CPU",
            f"{'broker':<13}{'whole':>11}{'by session':>13}{'ratio':>9}",
            *map(idle, doors),
        ]
    return lines


def main() -> None:
    """`python -m tests.benchmarks.raw_fetch`"""
    print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
