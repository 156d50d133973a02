"""This room walks worlds whose logs are compacted: what `run.py` calls the simulation `compacting`.

Brokers, logs and disks are those of `disks`; records have keys, some of them delete their key. Each broker
compacts by itself, step by step between everything else; it is killed between two operations on its files.
Whoever reads finds the last value of each key, and no key that was deleted before it began.

Two kinds of worlds. In the one disks lose and spoil what they hold, and tombstones are never old enough to
go. In the other time passes and they go; it passes while every replica holds what is committed, for of a key
whose tombstone a replica never had no other one tells it; nor does Kafka.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final
from unittest.mock import patch

from broker.core.replica_log import PartitionKey
from broker.log.cleaning import Passes
from broker.log.partition_log import PartitionLog
from tests.simulation.replication.broker_process import Broker
from tests.simulation.replication.compacted_log import (
    CompactedLog,
    Content,
    Known,
    content_of,
    keyed_batch_of,
)
from tests.simulation.replication.disk_broker import DiskBroker
from tests.simulation.replication.disk_log import DAY_MS, DiskLog
from tests.simulation.replication.disks import DiskWorld, walk
from tests.simulation.replication.memory_log import Stored
from tests.simulation.replication.runner import Outcome
from tests.simulation.replication.wishes import Broken
from tests.simulation.replication.world import Action
from tests.unit.kafkawire.strict_reader import Unreadable, records_in

STEPS: Final = 220
TIMED_IN_EACH: Final = 6
"""One world of so many, all of them without harm."""
RETENTION_MS: Final = 1_000
OPERATIONS: Final = ("replace", "rename", "unlink", "fsync", "write")
MOST_OPERATIONS: Final = 12
READ_AT_ONCE: Final = 3


class Killed(BaseException):
    """The process ends here."""


class _Beside:
    """What the cleaner has done in a thread: it is done when it is looked for again."""

    def __init__(self, work: Callable[..., Any], *stated: Any, **named: Any) -> None:
        self._work: Callable[[], Any] = partial(work, *stated, **named)

    def __await__(self) -> Generator[None, None, Any]:
        yield
        return self._work()


class CompactingBroker(DiskBroker):
    """A broker whose cleaner goes one step at a time."""

    has_gaps = True
    known: dict[PartitionKey, Known]
    """What was ever stored, of all brokers."""

    def start(self) -> None:
        self._pass: Coroutine[Any, Any, int] | None = None
        super().start()

    def kill(self) -> None:
        if self._pass is not None:
            self._pass.close()
            self._pass = None
        super().kill()

    def batch_of(self, value: int, broker_id: int, run: int, mark: int) -> bytes:
        return keyed_batch_of(value, broker_id, run, mark, self.day)

    def view_of(self, log: PartitionLog, deleted: Any) -> DiskLog:
        key = next(key for key, opened in self._shelf._open.items() if opened is log)
        return CompactedLog(log, deleted, self.known.setdefault(key, {}))

    def append(self, key: Any, value: int) -> None:
        before = self.logs[key].end_offset
        super().append(key, value)
        if self.logs[key].end_offset > before:
            broker_id, run, mark = self._writes(key)
            epoch = self.replicas[key].leader_epoch
            self.logs[key].appended(Stored(epoch, value, (broker_id, run), mark))

    def clean(self, operations: int | None = None) -> None:
        """One step of the cleaner, or up to that operation on a file. Raises Killed there."""
        if self._pass is None:
            self._pass = self.plane.cleaner.clean_dirty()
        coroutine = self._pass

        async def step() -> bool:
            try:
                coroutine.send(None)
            except StopIteration:
                return True
            return False

        with ExitStack() as stack:
            stack.enter_context(patch.object(asyncio, "to_thread", _Beside))
            if operations is not None:
                stack.enter_context(killed_at(operations))
            if self._runner.run(step()):
                self._pass = None


class killed_at(ExitStack):
    """The process is killed before its `left`-th operation on a file."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self._left = left

    def __enter__(self) -> "killed_at":
        super().__enter__()
        for name in OPERATIONS:
            self.enter_context(patch.object(os, name, self._counted(getattr(os, name))))
        return self

    def _counted(self, done: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*stated: Any, **named: Any) -> Any:
            if not self._left:
                raise Killed
            self._left -= 1
            return done(*stated, **named)

        return counted


class Reader:
    """A consumer that reads a partition from its start on."""

    def __init__(self, offset: int, wall_ms: int) -> None:
        self.start = self.offset = offset
        self.began_ms = wall_ms
        self.values: dict[bytes, int] = {}


class CompactingWorld(DiskWorld):
    """A world whose one topic is compacted."""

    configs: ClassVar[Mapping[str, str]] = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(RETENTION_MS),
    }

    def _begin(self, assignments: list[tuple[int, ...]]) -> None:
        self.readers: dict[PartitionKey, Reader] = {}
        self._covered: dict[tuple[int, PartitionKey, int], int] = {}
        """When a pass of a broker was first seen to have been over an offset."""
        self._gone: set[tuple[PartitionKey, Stored]] = set()
        """Tombstones that were old enough to go, somewhere."""
        super()._begin(assignments)

    def _machine(self, broker_id: int) -> Broker:
        if not hasattr(self, "known"):
            self.known: dict[PartitionKey, Known] = {}
        folder = self._folder / str(broker_id)
        made = CompactingBroker.__new__(CompactingBroker)
        made.known, made.calendar = self.known, lambda: self.wall_ms
        made.__init__(broker_id, folder, self._runner, lambda: self.now, Random(self._rng.random()))  # type: ignore[misc]
        return made

    # ------------------------------------------------------------------------------ what may happen

    def possible(self) -> list[Action]:
        found = super().possible()
        for b, broker in self._up():
            if not broker.needs_restart and broker.plane.partitions():
                found.append(("clean", b))
        return found + [("read", key) for key in self.keys if self._leader_of(key) is not None]

    def faults(self) -> list[Action]:
        found = super().faults()
        for b, broker in self._up():
            if self.left("clean_killed") and not broker.needs_restart:
                found += [("clean_killed", b, operations) for operations in range(MOST_OPERATIONS)]
        if self.left("age") and self._everybody_holds_all():
            found.append(("age",))
        return found

    def _everybody_holds_all(self) -> bool:
        return not any(one.crashed for one in self.brokers.values()) and all(
            key in self.brokers[b].logs and self.brokers[b].logs[key].end_offset >= len(self.committed[key])
            for key in self.keys
            for b in self.rows().partitions[key].assigned
        )

    def _leader_of(self, key: Any) -> tuple[CompactedLog, int] | None:
        """The log that consumers read by now, and how far."""
        row = self.rows().partitions[key]
        broker = self.brokers.get(row.leader)
        replica = broker.replicas.get(key) if broker is not None and broker.up else None
        if broker is None or replica is None or not replica.leads or replica.leader_epoch != row.leader_epoch:
            return None
        log: Any = broker.logs[key]
        return (log, replica.high_watermark) if log.is_readable and not broker.crashed else None

    # ------------------------------------------------------------------------------ doing it

    def _clean(self, b: int) -> None:
        broker = self.brokers[b]
        assert isinstance(broker, CompactingBroker)
        broker.clean()

    def _clean_killed(self, b: int, operations: int) -> None:
        """The rest of a pass up to that operation, and the process ends."""
        broker = self.brokers[b]
        assert isinstance(broker, CompactingBroker)
        try:
            for _ in range(3):
                broker.clean(operations)
        except Killed:
            pass
        folders = {key: view.folder for key, view in broker.logs.items()}
        broker.kill()
        for key, folder in folders.items():
            for offset in range(Passes(folder).clean_to):
                self._covered.setdefault((b, key, offset), self.wall_ms)

    def _age(self) -> None:
        self.wall_ms += RETENTION_MS + 1

    def _read(self, key: PartitionKey) -> None:
        led = self._leader_of(key)
        assert led is not None
        log, high_watermark = led
        reader = self.readers.setdefault(key, Reader(log.start_offset, self.wall_ms))
        if high_watermark < reader.offset:
            return
        if reader.offset < log.start_offset:
            # As a consumer that resets: what it knew of deleted records it cannot judge.
            del self.readers[key]
            return
        self._fetch_strictly(key, log, reader.offset, high_watermark)
        for offset in [at for at in log.present() if reader.offset <= at < high_watermark][:READ_AT_ONCE]:
            record, reader.offset = content_of(log.records[offset].value), offset + 1
            reader.values.pop(record.key, None)
            if not record.is_tombstone:
                reader.values[record.key] = offset
        if not any(reader.offset <= at < high_watermark for at in log.present()):
            if self.wall_ms - reader.began_ms < RETENTION_MS:
                self._judge(key, reader, max(reader.start, log.start_offset), high_watermark)
            del self.readers[key]

    def _fetch_strictly(self, key: PartitionKey, log: CompactedLog, offset: int, end: int) -> None:
        """What a client is sent is what lies there, and no client trips over it."""
        hosted = self.brokers[self.rows().partitions[key].leader].plane.hosted(*key)  # type: ignore[attr-defined]
        try:
            found = log.fetched(hosted, offset)
        except Unreadable as demand:
            raise Broken(f"a client does not get past {offset}: {demand}") from demand
        if not log.is_readable:
            return
        read = records_in(found, offset)
        behind = found[-1].next_offset if found else offset
        wanted = [at for at in log.present() if offset <= at < min(behind, end)]
        if [one.offset for one in read] != wanted:
            raise Broken(f"a client is sent {[one.offset for one in read]} of {wanted}")
        if not read and behind < end:
            raise Broken(f"nothing is sent from {offset} to {behind}, and {end} is readable")
        for one in read:
            content = content_of(log.records[one.offset].value)
            if (one.key, one.value is None) != content:
                raise Broken(f"a client reads {one.key!r} where {content.key!r} was written")

    def _judge(self, key: PartitionKey, reader: Reader, start: int, end: int) -> None:
        """A reader that was quick enough knows each key as it was written.

        A leader that has just started may expose less than was committed and compacted: a value whose
        successor lies above its high watermark may be gone.
        """
        last = last_of_each(self.committed[key][:end], start)
        found = {name: at for name, at in reader.values.items() if at >= start}
        by_now = last_of_each(self.committed[key], start)
        gone = {name for name, (at, _) in by_now.items() if at >= end} - found.keys()
        wanted = {
            name: at for name, (at, record) in last.items() if not record.is_tombstone and name not in gone
        }
        if found != wanted:
            raise Broken(f"whoever reads finds {found}, and {wanted} was written")

    # ------------------------------------------------------------------------------ what must hold

    def _look(self) -> None:
        super()._look()
        for b, broker in self._up():
            for key, log in broker.logs.items():
                if key in broker.replicas and log.is_readable and not broker.crashed:
                    self._look_at_keys(b, key, log)

    def _look_at_keys(self, b: int, key: PartitionKey, log: CompactedLog) -> None:
        """No key lost its last value, no deleted key is back, no tombstone went early; what is open stays."""
        present, start, records = set(log.present()), log.start_offset, log.records
        if log.clean_to is not None:
            for offset in range(start, min(log.clean_to, len(records))):
                self._covered.setdefault((b, key, offset), self.wall_ms)
            for place in [one for one in self._covered if one[:2] == (b, key) and one[2] >= log.clean_to]:
                del self._covered[place]
        if len(records) < len(self.committed[key]):
            # What it copies was compacted as a whole: of its beginning alone nothing can be said.
            return
        for end in {len(self.committed[key]), len(records)}:
            for name, (offset, record) in last_of_each(records[:end], start).items():
                if offset in present:
                    continue
                if not record.is_tombstone:
                    raise Broken(f"the last value of {name!r} is lost")
                if any(content_of(records[at].value).key == name for at in present if at < offset):
                    raise Broken(f"{name!r} was deleted, and is back")
                self._look_at_age(b, key, offset, records[offset])

    def _look_at_age(self, b: int, key: PartitionKey, offset: int, tombstone: Stored) -> None:
        covered = self._covered.get((b, key, offset))
        if covered is not None and self.wall_ms - covered >= RETENTION_MS:
            self._gone.add((key, tombstone))
        if (key, tombstone) not in self._gone:
            raise Broken("a tombstone went before its time")


class TimedWorld(CompactingWorld):
    """One in which time alone closes segments, and deletes what is four days old."""

    configs: ClassVar[Mapping[str, str]] = {
        **CompactingWorld.configs,
        "cleanup.policy": "compact,delete",
        "segment.bytes": "1048576",
        "segment.ms": str(DAY_MS // 2),
        "retention.ms": str(4 * DAY_MS),
    }

    def _age(self) -> None:
        self._day()


def last_of_each(records: list[Stored], start: int) -> dict[bytes, tuple[int, Content]]:
    """Offset and content of the last record of each key, from `start` on."""
    found: dict[bytes, tuple[int, Content]] = {}
    for offset in range(start, len(records)):
        content = content_of(records[offset].value)
        found[content.key] = offset, content
    return found


def random_world(rng: Random, seed: int, folder: Path, runner: asyncio.Runner) -> CompactingWorld:
    """Three brokers, one or two partitions, and a budget for each kind of fault."""
    harm = seed % 2 == 1
    assignments = [tuple(rng.sample((1, 2, 3), rng.choice((2, 3)))) for _ in range(rng.choice((1, 1, 2)))]
    budget = {
        "clean_killed": rng.randint(0, 3),
        "kill": rng.randint(0, 2),
        "tear": rng.randint(0, 1),
        "stop": rng.randint(0, 1),
        "expire": rng.randint(0, 2),
        "takeover": rng.randint(0, 1),
        "late": rng.randint(0, 1),
        "slow": rng.randint(0, 2),
        "move": rng.randint(0, 3),
        "break": rng.randint(0, 1),
        "refuse": rng.randint(0, 1),
        "reassign": rng.choice((0, 0, 1, 2)),
        "trim": rng.choice((0, 0, 1)),
        "power": rng.randint(0, 1) if harm else 0,
        "flip": rng.randint(0, 1) if harm else 0,
        "flush_fails": rng.randint(0, 1) if harm else 0,
        "age": 0 if harm else rng.randint(1, 6),
    }
    return (TimedWorld if seed % TIMED_IN_EACH == 2 else CompactingWorld)(
        folder,
        runner,
        rng,
        assignments,
        brokers=3,
        min_insync=2 if harm else rng.choice((1, 2)),
        values=rng.randint(10, 30),
        budget=budget,
        in_the_turn=rng.choice((0, 200)),
    )


def run_seed(seed: int) -> Outcome:
    """One walk, ended by a fair run: all machines revived, or only those that live."""
    return walk(seed, "compacting", STEPS, random_world)
