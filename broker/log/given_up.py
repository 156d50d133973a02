"""This room remembers which logs this broker gave up: an older database may name it as in sync for them.

A replica that is moved away, or whose topic is deleted, is erased. Where PostgreSQL is restored from a backup
of before, the row still says that this broker holds all that was committed: elected, it would lead with
nothing, and every other replica would be cut to that.
"""

import contextlib
from pathlib import Path
from typing import Final
from uuid import UUID

import structlog

from broker.core.replica_log import PartitionKey
from broker.log.checkpoints import load_offsets, save_offsets

log = structlog.get_logger(__name__)

FILE: Final = "given-up-logs"
SINCE: Final = "given-up-since"
"""A line for each that went or came again since FILE was written: that costs as much as all it names, and a
broker gives up ten thousand one by one."""
WITHHELD: Final = "withheld-logs"
KEPT_MAX: Final = 10_000
"""The oldest are forgotten: a backup of long before is read in rarely, a file is written each time."""
_HAS_BEGUN: Final = -1

WHY: Final = (
    "this broker gave the log up, when it was moved away or deleted, but the database, which may be an older"
    " one, names it as in sync: once another leads, start this broker again, and it confesses that"
)
CONFESSED: Final = "it was given up, and the database named it as in sync"


class GivenUpLogs:
    """By partition the last leader epoch of its log: a partition that came again under its number is above.

    One that a row names as in sync is withheld: it counts as failed until the process ends, and the next one
    confesses it as damage, as of any log that failed (replication.md section 3).
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._since_path = folder / FILE, folder / SINCE
        self._withheld_path = folder / WITHHELD
        self._epochs: dict[PartitionKey, int] = {}
        self._withheld: dict[PartitionKey, int] = {}
        self._is_saved = self._is_withheld_saved = True

    def load(self, found: frozenset[PartitionKey]) -> frozenset[PartitionKey]:
        """What the process before noted, but for logs that were begun again; returns what it withheld.

        Raises OSError.
        """
        since = self._load_since()
        noted, withheld = load_offsets(self._path) | since, load_offsets(self._withheld_path)
        self._is_saved = not since
        self._epochs = {key: epoch for key, epoch in noted.items() if epoch >= 0 and key not in found}
        self._withheld = {key: 0 for key in withheld if key in self._epochs}
        return frozenset(self._withheld)

    def withholds(self, key: PartitionKey) -> bool:
        """Whether a row named it as in sync, which nobody may believe."""
        return key in self._withheld

    def _load_since(self) -> dict[PartitionKey, int]:
        """What was torn names nothing: a log was not moved before its line was whole."""
        try:
            lines = self._since_path.read_text(encoding="ascii", errors="replace").split("\n")
        except FileNotFoundError:
            return {}
        since = {}
        for line in lines:
            with contextlib.suppress(ValueError):
                topic_id, partition, epoch, _ = line.split(" ")
                since[PartitionKey(UUID(topic_id), int(partition))] = int(epoch)
        return since

    def note(self, key: PartitionKey, last_epoch: int) -> None:
        """Its log is erased soon: called before, as a process may die behind it."""
        if self._epochs.get(key, _HAS_BEGUN) >= last_epoch:
            return
        self._epochs.pop(key, None)
        self._epochs[key] = last_epoch
        if len(self._epochs) > KEPT_MAX:
            oldest = next(iter(self._epochs))
            del self._epochs[oldest]
            self._withheld.pop(oldest, None)
        self._note_since(key, last_epoch)

    def _note_since(self, key: PartitionKey, epoch: int) -> None:
        self._is_saved = False
        try:
            with open(self._since_path, "ab") as file:
                # On a line of its own, also behind one that a full disk tore, and with an end that shows.
                file.write(f"\n{key.topic_id} {key.partition} {epoch} .".encode())
        except OSError as error:
            # What refuses this refuses most likely the log, too, which then fails.
            log.error("given_up_not_noted", partition=str(key), reason=str(error))

    def look(self, key: PartitionKey, *, is_in_sync: bool, base_epoch: int) -> None:
        """A row names this broker again, before there is a log: it is withheld where that is in sync.

        Not so where it is to copy, or where the partition was removed and made anew, which begins empty.
        """
        if key not in self._epochs:
            return
        if not is_in_sync or base_epoch >= self._epochs[key]:
            self.begun(key)
        elif key not in self._withheld:
            # Saved once for all of a frame: behind a kill it is withheld again, and confessed later.
            self._withheld[key] = 0
            self._is_withheld_saved = False

    def begun(self, key: PartitionKey) -> None:
        """There is a log again, or the controller has heard that there is none."""
        if self._epochs.pop(key, None) is not None:
            self._note_since(key, _HAS_BEGUN)
            if self._withheld.pop(key, None) is not None:
                self._is_withheld_saved = False

    @property
    def has_news(self) -> bool:
        """True if FILE is not all that is known."""
        return not self._is_saved

    def save_withheld(self) -> None:
        """Write what is withheld, if it is otherwise than it was written last. Raises OSError."""
        if not self._is_withheld_saved:
            save_offsets(self._withheld_path, self._withheld)
            self._is_withheld_saved = True

    def save(self) -> None:
        """Write what is otherwise than it was written last. Raises OSError."""
        self.save_withheld()
        if not self._is_saved:
            save_offsets(self._path, self._epochs)
            self._since_path.unlink(missing_ok=True)
            self._is_saved = True
