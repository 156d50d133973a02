"""This room keeps single logs of a machine in the simulation from being opened, for one start at a time.

A file that is no segment lies among theirs while the process opens its logs, and is gone behind that: the log
is not opened by this process, and can be by the next. What it holds is not touched.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.core.replica_log import PartitionKey
from tests.simulation.replication.disk_log import KeptRecords
from tests.simulation.replication.memory_log import Stored

if TYPE_CHECKING:
    from tests.simulation.replication.disk_broker import DiskBroker

NO_SEGMENT = "odd.log"


class OnDisk(NamedTuple):
    """What lies on disk of a log whose process is gone."""

    records: list[Stored]
    durable: int
    """So much of it outlives a crash of the machine."""
    start_offset: int
    """What was deleted below it counts as held, and is gone by no crash."""
    folder: Path


class Unopened:
    """How the checks see a log that lies there, and that no process can read at present."""

    has_hole = False

    def __init__(self, found: OnDisk) -> None:
        self.found = found
        self.records = found.records
        self.folder = found.folder
        self.end_offset = len(found.records)
        self.start_offset = found.start_offset
        self.is_damaged = False


class BarredLogs:
    """The logs of one machine that its next start cannot open, and those that the present one could not."""

    def __init__(self) -> None:
        self.on_disk: dict[PartitionKey, OnDisk] = {}
        """Of every log, since the last process ended."""
        self.unopened: dict[PartitionKey, Unopened] = {}
        self._next: set[PartitionKey] = set()

    def choices(self) -> list[PartitionKey]:
        """Which may be barred while the machine is down."""
        return [
            key
            for key, one in sorted(self.on_disk.items())
            if one.records and one.folder.exists() and key not in self._next
        ]

    def bar(self, key: PartitionKey) -> None:
        self._next.add(key)

    @contextmanager
    def at_a_start(self) -> Iterator[None]:
        """As long as this lasts logs are opened."""
        barred = {key: self.on_disk[key] for key in sorted(self._next) if self.on_disk[key].folder.exists()}
        self._next.clear()
        files = [one.folder / NO_SEGMENT for one in barred.values()]
        for path in files:
            path.touch()
        try:
            yield
        finally:
            for path in files:
                path.unlink()
        self.unopened = {key: Unopened(one) for key, one in barred.items()}

    def seen(self, holds: Callable[[PartitionKey], bool], opened: Iterable[Any]) -> dict[Any, Any]:
        """Those of them that are there still."""
        return {key: one for key, one in self.unopened.items() if holds(key) and key not in opened}

    def ended(self, broker: "DiskBroker") -> None:
        """The process is gone: this is what lies there."""
        opened, kept = broker._shelf._open, broker._kept
        self.on_disk = {key: one.found for key, one in self.seen(broker._shelf.holds, opened).items()}
        self.on_disk |= {
            key: OnDisk(kept[key].records, log.recovery_point, log.start_offset, log.folder)
            for key, log in opened.items()
        }

    def cut(self, key: PartitionKey, end_offset: int) -> None:
        """A crash, of memory or of the machine, has left so much of it: that is read from the disk then."""
        one = self.on_disk[key]
        left = max(end_offset, one.start_offset)
        self.on_disk[key] = one._replace(records=one.records[:left], durable=end_offset)


def kept_records(logs: dict[Any, Any]) -> dict[Any, KeptRecords]:
    """Of logs whose process is gone, as they were last seen."""
    return {key: KeptRecords(list(view.records)) for key, view in logs.items()}
