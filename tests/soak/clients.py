"""This room is one process of clients in a soak: some kinds of members, and a file that tells what they saw.

python -m tests.soak.clients SPECIFICATION.json
"""

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer as Librdkafka
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import KafkaException

from muster import Consumer, Record
from tests.soak.raw_classic import RawClassic
from tests.soak.raw_native import RawNative
from tests.soak.reading import WholeLog
from tests.soak.seen import Seen

with warnings.catch_warnings():
    # kafka-python reads its schemas by an old way of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

TELL_EVERY_S = 3.0
BEAT_S = 0.25
KAFKA_SESSION_MS = 20_000


class Members:
    """All members of this process."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.seen = Seen()
        self.failures: list[str] = []
        self.joins: dict[str, int] = {}
        self.largest_gap_s = 0.0
        self.raw: list[RawNative | RawClassic] = []
        self._log: WholeLog | None = None

    @property
    def log(self) -> WholeLog:
        """The topic as read once."""
        if self._log is None:
            self._log = WholeLog(self.told["bootstrap"], self.told["topic"], self.told["partitions"])
        return self._log

    async def run(self) -> None:
        """Until killed."""
        tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._tell())]
        for kind, group, names in self.told["members"]:
            for name in names:
                tasks += self._start(kind, group, name)
                # All at once would be a storm of the soak's own making, and two cores start them.
                await asyncio.sleep(0.05)
        await asyncio.gather(*tasks)

    def _start(self, kind: str, group: str, name: str) -> "Sequence[asyncio.Task[None]]":
        topic, token = self.told["topic"], os.environ["MUSTER_TOKEN"]
        start = asyncio.create_task
        if kind == "raw native":
            native = RawNative(name, group, topic, self.told["nodes"], token, self.log, self.seen)
            self.raw.append(native)
            return [start(native.run()), start(native.read())]
        if kind == "raw classic":
            classic = RawClassic(name, group, topic, self.told["bootstrap"], self.log, self.seen)
            self.raw.append(classic)
            return [start(classic.run())]
        if kind == "sdk":
            return [start(self._again(name, lambda: self._sdk(group, name, token)))]
        if kind == "aiokafka":
            return [start(self._again(name, lambda: self._aiokafka(group, name)))]
        run = {"librdkafka": self._librdkafka, "kafka-python": self._kafka_python}[kind]
        threading.Thread(target=self._again_in_a_thread, args=(name, run, group), daemon=True).start()
        return []

    # --- one member of each kind; what it raises is told, and it comes again -----------------------------

    async def _sdk(self, group: str, name: str, token: str) -> None:
        async with Consumer(
            group,
            [self.told["topic"]],
            nodes=self.told["nodes"],
            token=token,
            consumer_id=name,
            auto_offset_reset="earliest",
        ) as consumer:
            self._joined(name)
            while batch := await consumer.next_batch(500):
                for record in batch:
                    self._saw(group, name, record.tenure, record)

    async def _aiokafka(self, group: str, name: str) -> None:
        topic = self.told["topic"]
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.told["bootstrap"],
            group_id=group,
            client_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=KAFKA_SESSION_MS,
        )
        consumer.subscribe([topic], listener=_Told(lambda: self._joined(name)))
        await consumer.start()
        try:
            while True:
                found = await consumer.getmany(timeout_ms=500, max_records=500)
                for records in found.values():
                    for one in records:
                        self._saw(group, name, self.joins.get(name, 0), one)
                if found:
                    # What a rebalance took away is not committed; the others read it again.
                    with contextlib.suppress(KafkaError):
                        await consumer.commit()
        finally:
            await consumer.stop()

    def _librdkafka(self, group: str, name: str) -> None:
        strategy = "cooperative-sticky" if "sticky" in group else "range,roundrobin"
        settings: dict[str, Any] = {
            "bootstrap.servers": self.told["bootstrap"],
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": KAFKA_SESSION_MS,
            "partition.assignment.strategy": strategy,
            "log_level": 0,
        }
        if "static" in group:
            settings["group.instance.id"] = name
        consumer = Librdkafka(settings)
        consumer.subscribe([self.told["topic"]], on_assign=lambda *_: self._joined(name))
        try:
            while True:
                found = consumer.consume(500, timeout=0.5)
                errors = [error for one in found if (error := one.error()) is not None]
                # What comes by poll says by its code alone that it is fatal.
                dead = [error for error in errors if error.code() == LibrdkafkaError._FATAL]
                if dead:
                    # As an application would: it ends this consumer, and makes another.
                    raise KafkaException(dead[0])
                good = [one for one in found if one.error() is None]
                for one in good:
                    tenure = self.joins.get(name, 0)
                    place = int(one.partition() or 0), int(one.offset() or 0)
                    self.seen.saw(group, name, tenure, *place, one.value() or b"")
                if good:
                    with contextlib.suppress(Exception):
                        consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    def _kafka_python(self, group: str, name: str) -> None:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.told["bootstrap"],
            group_id=group,
            client_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=KAFKA_SESSION_MS,
        )
        consumer.subscribe([self.told["topic"]], listener=_ToldAtOnce(lambda: self._joined(name)))
        try:
            while True:
                found = consumer.poll(timeout_ms=500, max_records=500)
                for records in found.values():
                    for one in records:
                        self._saw(group, name, self.joins.get(name, 0), one)
                if found:
                    with contextlib.suppress(Exception):
                        consumer.commit()
        finally:
            consumer.close()

    # --- what all have in common --------------------------------------------------------------------------

    def _saw(self, group: str, name: str, tenure: Any, record: "Record | Any") -> None:
        self.seen.saw(group, name, tenure, record.partition, record.offset, record.value or b"")

    def _joined(self, name: str) -> None:
        self.joins[name] = self.joins.get(name, 0) + 1

    async def _again(self, name: str, member: Callable[[], Any]) -> None:
        while True:
            try:
                await member()
            except Exception as problem:
                self._fails(name, problem)
                await asyncio.sleep(1)

    def _again_in_a_thread(self, name: str, member: Callable[[str, str], None], group: str) -> None:
        while True:
            try:
                member(group, name)
            except Exception as problem:
                self._fails(name, problem)
                time.sleep(1)

    def _fails(self, name: str, problem: Exception) -> None:
        # It comes back as another incarnation, and begins where the group has committed.
        self._joined(name)
        if len(self.failures) < 100:
            self.failures.append(f"{name}: {type(problem).__name__}: {problem}"[:300])

    async def _beat(self) -> None:
        """Whoever does not get the processor misses his session without anybody's fault."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(BEAT_S)
            self.largest_gap_s = max(self.largest_gap_s, time.monotonic() - before - BEAT_S)

    async def _tell(self) -> None:
        path = Path(self.told["tells"])
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            at = time.time()
            said = {
                "at": at,
                "failures": self.failures + [f"{one.name}: {one.failure}" for one in self.raw if one.failure],
                "joins": sum(self.joins.values()) + sum(one.joins for one in self.raw),
                "largest_gap_s": self.largest_gap_s,
                **self.seen.told(),
            }
            path.with_suffix(".new").write_text(json.dumps(said))
            path.with_suffix(".new").rename(path)


class _Told(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka ships no types
    def __init__(self, assigned: Callable[[], None]) -> None:
        self._assigned = assigned

    async def on_partitions_revoked(self, revoked: Any) -> None: ...

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._assigned()


class _ToldAtOnce(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python ships no types
    def __init__(self, assigned: Callable[[], None]) -> None:
        self._assigned = assigned

    def on_partitions_revoked(self, revoked: Any) -> None: ...

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._assigned()


if __name__ == "__main__":
    asyncio.run(Members(json.loads(Path(sys.argv[1]).read_text())).run())
