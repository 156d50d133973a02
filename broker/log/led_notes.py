"""This room notes on disk in which leader epochs this broker led, before anybody is served in them."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

import structlog
from crc32c import crc32c

from broker.core.led_epochs import Led, LedEpochs
from broker.core.replica_log import PartitionKey

log = structlog.get_logger(__name__)

FILE: Final = "led-epochs"
SPARE_LINES: Final = 10_000
"""So many more than twice the partitions are written before the file is written anew."""


class LedNotes(LedEpochs):
    """A line for each change of a leader, all those of a turn at once; the last line of a partition counts.

    Not flushed, as other small files: a machine that crashed confesses a lost tail of all its logs. An older
    line than the last is as true of the log as it was.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / FILE
        self._lines = 0

    def load(self, found: Iterable[PartitionKey]) -> None:
        """What processes of before noted of the logs that are there. Raises OSError."""
        noted: dict[PartitionKey, Led] = {}
        with contextlib.suppress(FileNotFoundError):
            lines = self._path.read_text(encoding="ascii", errors="replace").split("\n")
            self._lines = len(lines)
            for line in lines:
                stated, _, checksum = line.rpartition(" ")
                if stated and checksum == _checksum(stated):
                    topic_id, partition, epoch, end_offset = stated.split(" ")
                    key = PartitionKey(UUID(topic_id), int(partition))
                    noted[key] = Led(int(epoch), int(end_offset))
        self.led.update((key, noted[key]) for key in found if key in noted)

    def save(self) -> None:
        """Before the loop goes on: nobody was served yet in an epoch of which a row has just told.

        A disk that refuses stops no leader. It is tried again with the next row, and only where logs have to
        be compared may what it did not take decide wrongly.
        """
        if not self.news:
            return
        try:
            if self._lines <= 2 * len(self.led) + SPARE_LINES or not self._is_written_anew():
                with open(self._path, "ab") as file:
                    file.write(_lines(self.news))
                self._lines += len(self.news)
            self.news = {}
        except OSError as error:
            log.error("led_epochs_not_noted", partitions=len(self.news), reason=str(error))

    def _is_written_anew(self) -> bool:
        """False where that fails. It is tried again as many lines later: it costs as much as all of them."""
        self._lines = len(self.led)
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_bytes(_lines(self.led))
            os.replace(fresh, self._path)
        except OSError as error:
            log.warning("led_epochs_not_written_anew", reason=str(error))
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)  # Half of it would take the room that others need.
            return False
        return True


def _lines(led: Mapping[tuple[UUID, int], Led]) -> bytes:
    """Each on a line of its own, also behind one that a kill or a full disk tore."""
    stated = [f"{topic_id} {n} {epoch} {end}" for (topic_id, n), (epoch, end) in led.items()]
    return "".join([f"\n{one} {_checksum(one)}" for one in stated]).encode()


def _checksum(stated: str) -> str:
    return f"{crc32c(stated.encode()):08x}"
