"""This room is the simulated world of one seed: clock, chance, database, and what must never happen."""

import heapq
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from coordinator.core import rebalance
from coordinator.core.draft import GroupDecision
from coordinator.core.proposal import Proposal
from coordinator.core.settings import GroupSettings, Surroundings
from groups.core import records
from groups.core.rows import apply
from groups.core.state import GroupRows
from muster.kernel.instants import Instant
from muster.messages.partitions import Partition, each_partition
from tests.simulation.native.topics import layout, layouts

SESSION_MS = 6_000


class Violation(AssertionError):
    """Something that must never be; the trail before it tells how it came."""


def matches(pattern: str, topic: str) -> bool:
    """The patterns of the simulation mean the same to Python and to RE2."""
    return re.fullmatch(pattern, topic) is not None


@dataclass
class Item:
    """A work item: what a rebalance handler was asked for, and its result."""

    id: str
    result: bytes | None = None


@dataclass
class Database:
    """The rows, the lease's epoch and the work item; every write is conditional."""

    rows: GroupRows
    epoch: int = 0
    item: Item | None = None
    items: int = 0


class Clock:
    """One process's own monotonic clock: it starts anywhere and runs a little fast or slow."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._rate = world.chance.uniform(0.997, 1.003)
        self._start = world.chance.randint(0, 10**9)

    def now(self) -> Instant:
        return Instant(int(self._start + self._world.now * self._rate))

    def world_time(self, instant: Instant) -> float:
        return (instant - self._start) / self._rate


class World:
    """Everything of one seed. Actions run one after the other, in the order of their times."""

    def __init__(self, seed: int, settings: GroupSettings | None = None) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        mode = "eager" if self.chance.random() < 0.15 else "incremental"
        self.database = Database(GroupRows("readers", rebalance_mode=mode))
        self.settings = settings or GroupSettings(lease_ttl_ms=2_000, rebalance_max_retries=1)
        self.surroundings = Surroundings(matches=matches)
        self.layouts = layouts(
            layout("orders", 1, self.chance.randint(2, 6)), layout("clicks", 2, self.chance.randint(0, 3))
        )
        self.trail: list[str] = []
        self.attempts = 0
        self.overlaps = 0
        self.floor: dict[Partition, int] = {}
        self.quiet = False
        self.when_it_matters: Callable[[], None] = lambda: None
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    # -- time -------------------------------------------------------------------------------

    def later(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Run the action after this delay."""
        self._count += 1
        heapq.heappush(self._agenda, (self.now + max(0.0, delay_ms), self._count, action))

    def soon(self, action: Callable[[], None], at_most_ms: float = 5.0) -> None:
        """Run the action after a short random delay."""
        self.later(self.chance.uniform(0.1, at_most_ms), action)

    def run_until(self, end: float) -> None:
        """Run everything that is due before `end`."""
        while self._agenda and self._agenda[0][0] <= end:
            at, _, action = heapq.heappop(self._agenda)
            self.now = max(self.now, at)
            action()
        self.now = end

    def tell(self, text: str) -> None:
        """One line of the trail."""
        self.trail.append(f"{self.now / 1000:9.3f}  {text}")

    def forbid(self, condition: object, text: str) -> None:
        """Something that must never be."""
        if condition:
            self.tell(f"VIOLATION: {text}")
            raise Violation(text)

    # -- the database -----------------------------------------------------------------------

    def save(self, epoch: int, before: GroupRows, decision: GroupDecision) -> bool:
        """One transaction; False: the lease is another's."""
        database = self.database
        if database.epoch != epoch:
            return False
        self.forbid(database.rows.version != before.version, "two writers under one lease")
        database.rows = apply(database.rows, decision.records)
        self.forbid(database.rows != decision.state.rows, "what is stored is not what is remembered")
        for record in decision.records:
            self._note(record, before, decision)
        self._check_rows(before, database.rows)
        return True

    def commit_offsets(self, epoch: int, offsets: dict[Partition, int]) -> bool:
        """One fenced batch of offsets."""
        if self.database.epoch != epoch:
            return False
        rows = self.database.rows
        self.database.rows = replace(rows, offsets={**rows.offsets, **offsets})
        return True

    def _note(self, record: records.GroupRecord, before: GroupRows, decision: GroupDecision) -> None:
        match record:
            case records.HandlerAsked():
                self.database.items += 1
                item = Item(f"item-{self.database.items}")
                self.database.item = item
                self.tell(f"        handler asked: {record.cause}")
                self._handler_takes(item)
            case records.ItemAdopted():
                self.database.item = None
            case records.GenerationOpened():
                self.attempts += 1
            case records.PhaseEntered():
                self.when_it_matters()
            case records.PartitionsReleased():
                for partition in each_partition(record.partitions):
                    self._hand_over(partition, decision)
            case records.MemberRemoved():
                for partition in before.owned.get(record.member_id, {}):
                    self._hand_over(partition, decision)
            case _:
                pass
        if not isinstance(record, records.HandlerAsked | records.OffsetsFlushed):
            self.tell(f"        row {_short(record)}")

    def _hand_over(self, partition: Partition, decision: GroupDecision) -> None:
        """Whoever owns this next starts no earlier than the position that is known now."""
        committed = self.database.rows.offsets.get(partition, -1)
        self.floor[partition] = decision.state.memory.dirty.get(partition, committed)

    def _handler_takes(self, item: Item) -> None:
        """A worker takes the item after a while; sometimes it dies and another takes it later."""
        slow = self.chance.random() < 0.2 and not self.quiet
        delay = self.chance.uniform(500, 4_000) if slow else self.chance.uniform(2, 60)
        self.later(delay, lambda: self._handler_computes(item))

    def _handler_computes(self, item: Item) -> None:
        if self.database.item is not item:
            return
        proposal = rebalance.compute(self.database.rows, self.layouts, matches)
        result = msgspec.json.encode(proposal)
        self.later(self.chance.uniform(1, 80), lambda: self._handler_finishes(item, result))

    def _handler_finishes(self, item: Item, result: bytes) -> None:
        if self.database.item is item:
            item.result = result

    def finished_item(self) -> tuple[str, Proposal] | None:
        """The finished item, as a sweep or a load finds it."""
        item = self.database.item
        if item is None or item.result is None:
            return None
        return item.id, msgspec.json.decode(item.result, type=Proposal)

    def _check_rows(self, before: GroupRows, rows: GroupRows) -> None:
        owners: dict[Partition, str] = {}
        for member_id, tenures in rows.owned.items():
            self.forbid(member_id not in rows.members, f"{member_id} owns, but is no member")
            for partition in tenures:
                self.forbid(partition in owners, f"{partition} has two owners")
                owners[partition] = member_id
        self.forbid(rows.generation < before.generation, "the generation went back")


def _short(record: records.GroupRecord) -> str:
    text = []
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name == "partitions":
            value = ",".join(f"{topic.topic}{list(topic.partitions)}" for topic in value)
        elif name in ("token_hash", "client_id", "client_host", "auto_commit", "auto_offset_reset"):
            continue
        elif name == "topic_count":
            value = ",".join(entry.topic for entry in value)
        text.append(f"{name}={value}")
    return f"{type(record).__name__}({' '.join(text)})"
