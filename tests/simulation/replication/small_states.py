"""This room holds what a state of a small world consists of, and numbers for what was met before."""

from collections.abc import Hashable
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from broker.core.replica_log import EpochEnd
from controller.core.records import Reassignment
from muster.kernel.instants import Instant
from muster.messages.link.rows import PartitionRow
from tests.simulation.replication.wishes import Broken

TOPIC = UUID(int=1)
NOW = Instant(1_000)

Record: TypeAlias = tuple[int, int]
"""Leader epoch, value."""
Action: TypeAlias = tuple[Hashable, ...]
State: TypeAlias = tuple[int, ...]
"""The controller, what is committed, what fate may still do, then the brokers from 1 on: all by number."""


class Control(NamedTuple):
    """The controller's rows and memory, as far as one partition needs them."""

    version: int
    row: PartitionRow
    move: Reassignment | None
    live: tuple[bool, ...]
    """By broker, as its row says."""
    epochs: tuple[int, ...]
    runs: tuple[int, ...]
    sessions: frozenset[int]
    bound: frozenset[int]


class Hosted(NamedTuple):
    """What a process knows of its replica: the fields of `Replica` that time does not change."""

    row: PartitionRow
    high_watermark: int
    epoch_start: int
    pending: tuple[int, tuple[int, ...], tuple[tuple[int, int], ...]] | None
    progress: tuple[tuple[int, int, int, bool], ...]


class Machine(NamedTuple):
    """A broker: its disk, its process, its end of the link and the frames in flight on it."""

    log: tuple[Record, ...] = ()
    up: bool = True
    run: int = 1
    epoch: int = 1
    lost: bool = False
    """Its machine crashed, and no hello said so yet."""
    hosted: Hosted | None = None
    linked: bool = True
    ready: bool = True
    inbox: tuple[tuple[Any, ...], ...] = ()
    outbox: tuple[Any, ...] = ()
    late: tuple[Any, ...] = ()
    """An answer to a fetch that is under way."""


class TinyLog:
    """The records of one log, as `Replica` asks for them."""

    def __init__(self, records: tuple[Record, ...]) -> None:
        self._records = records
        self.start_offset, self.end_offset = 0, len(records)
        self.last_epoch = records[-1][0] if records else -1

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        upto = [one for one in self._records if one[0] <= epoch]
        return EpochEnd(upto[-1][0], len(upto)) if upto else EpochEnd(-1, 0)


class Numbers:
    """Things that were met, each by a number, and what was asked of them."""

    def __init__(self) -> None:
        self.things: list[Any] = []
        self._ids: dict[Any, int] = {}
        self._known: dict[Any, Any] = {}

    def number(self, thing: Any) -> int:
        known = self._ids.get(thing)
        if known is None:
            known = self._ids[thing] = len(self.things)
            self.things.append(thing)
        return known

    def once(self, method: Any, *arguments: Any) -> Any:
        """`method(*arguments)`, asked once; what it breaks it breaks again."""
        key = (method.__name__, *arguments)
        if key not in self._known:
            try:
                self._known[key] = method(*arguments)
            except Broken as broken:
                self._known[key] = broken
        found = self._known[key]
        if isinstance(found, Broken):
            raise found
        return found
