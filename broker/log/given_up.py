"""This room remembers which logs this broker gave up: an older database may name it as in sync for them.

A replica that is moved away, or whose topic is deleted, is erased. Where PostgreSQL is restored from a backup
of before, the row still says that this broker holds all that was committed: elected, it would lead with
nothing, and every other replica would be cut to that.
"""

from pathlib import Path
from typing import Final

import structlog

from broker.core.replica_log import PartitionKey
from broker.log.checkpoints import load_offsets, save_offsets

log = structlog.get_logger(__name__)

FILE: Final = "given-up-logs"
WITHHELD: Final = "withheld-logs"
KEPT_MAX: Final = 10_000
"""The oldest are forgotten: a backup of long before is read in rarely, a file is written each time."""

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
        self._path = folder / FILE
        self._withheld_path = folder / WITHHELD
        self._epochs: dict[PartitionKey, int] = {}
        self._withheld: dict[PartitionKey, int] = {}
        self._is_saved = True

    def load(self, found: frozenset[PartitionKey]) -> frozenset[PartitionKey]:
        """What the process before noted, but for logs that were begun again; returns what it withheld."""
        noted, withheld = load_offsets(self._path), load_offsets(self._withheld_path)
        self._epochs = {key: epoch for key, epoch in noted.items() if key not in found}
        self._withheld = {key: 0 for key in withheld if key in self._epochs}
        return frozenset(self._withheld)

    def withholds(self, key: PartitionKey) -> bool:
        """Whether a row named it as in sync, which nobody may believe."""
        return key in self._withheld

    def note(self, key: PartitionKey, last_epoch: int) -> None:
        """Its log, which held records, is erased soon."""
        self._epochs.pop(key, None)
        self._epochs[key] = last_epoch
        if len(self._epochs) > KEPT_MAX:
            del self._epochs[next(iter(self._epochs))]
        self._is_saved = False

    def look(self, key: PartitionKey, *, is_in_sync: bool, base_epoch: int) -> None:
        """A row names this broker again, before there is a log: it is withheld where that is in sync.

        Not so where it is to copy, or where the partition was removed and made anew, which begins empty.
        """
        if key not in self._epochs:
            return
        if not is_in_sync or base_epoch >= self._epochs[key]:
            self.begun(key)
        elif key not in self._withheld:
            self._withhold(key)

    def _withhold(self, key: PartitionKey) -> None:
        self._withheld[key] = 0
        try:
            save_offsets(self._withheld_path, self._withheld)
        except OSError as error:
            # The next process withholds it again, instead of confessing.
            log.error("checkpoint_not_written", reason=str(error))

    def begun(self, key: PartitionKey) -> None:
        """There is a log again, or the controller has heard that there is none."""
        if self._epochs.pop(key, None) is not None:
            self._withheld.pop(key, None)
            self._is_saved = False

    def save(self) -> None:
        """Write what is otherwise than it was written last. Raises OSError."""
        if not self._is_saved:
            save_offsets(self._path, self._epochs)
            save_offsets(self._withheld_path, self._withheld)
            self._is_saved = True
