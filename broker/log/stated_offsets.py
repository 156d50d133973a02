"""This room is a file that states an offset by partition, written now, or in a thread beside the loop.

To put a file in the place of another one may wait for a disk that is busy: a tenth of a second, in which a
loop would answer nobody. What a thread has still to write counts as stated already, and what the loop writes
meanwhile is not overwritten by it.
"""

import threading
from collections.abc import Mapping, Set
from pathlib import Path

from broker.core.replica_log import PartitionKey
from broker.log.checkpoints import load_offsets, save_offsets
from broker.log.files import sync_with_folder


class StatedOffsets:
    """All calls come from the loop, but for `Begun.write`."""

    __slots__ = ("_may_state", "_path", "count", "lock")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._may_state: tuple[dict[PartitionKey, int], ...] = ({},)
        """What the file states: one of these."""
        self.lock = threading.Lock()
        """Held while the file is written."""
        self.count = 0
        """How often it was written, or begun to be."""

    def load(self) -> dict[PartitionKey, int]:
        """What the process before stated."""
        stated = load_offsets(self._path)
        self._may_state = (dict(stated),)
        return stated

    def at_most(self, key: PartitionKey) -> int:
        """The file states no more of this partition."""
        return max(one.get(key, 0) for one in self._may_state)

    def names_others_than(self, keys: Set[PartitionKey]) -> bool:
        """True if the file may name a partition that is none of these."""
        return any(one.keys() - keys for one in self._may_state)

    def save(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Write them now, if the file states others. Raises OSError."""
        if self._may_state != (offsets,):
            self._write(offsets)

    def save_durably(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Write them now, so that nothing older comes back when the machine crashes. Raises OSError."""
        self._write(offsets)
        sync_with_folder(self._path)

    def _write(self, offsets: Mapping[PartitionKey, int]) -> None:
        with self.lock:
            # Whoever has begun before this and waits in a thread comes too late.
            self.count += 1
            save_offsets(self._path, offsets)
        self._may_state = (dict(offsets),)

    def begin(self, offsets: Mapping[PartitionKey, int]) -> "Begun | None":
        """What writes them in a thread; None: the file states them."""
        if self._may_state == (offsets,):
            return None
        self.count += 1
        begun = Begun(self, self._path, dict(offsets))
        self._may_state = (*self._may_state, begun.offsets)
        return begun

    def settle(self, begun: "Begun") -> bool:
        """The thread has ended; False: others came before it, and it wrote nothing."""
        if begun.is_written and begun.number == self.count:
            self._may_state = (begun.offsets,)
        elif not begun.is_written:
            self._may_state = tuple(one for one in self._may_state if one is not begun.offsets)
        return begun.is_written


class Begun:
    """One file that is to be written in a thread; the loop says `settle` when that has ended."""

    __slots__ = ("_file", "_path", "is_written", "number", "offsets")

    def __init__(self, file: StatedOffsets, path: Path, offsets: dict[PartitionKey, int]) -> None:
        self._file = file
        self._path = path
        self.offsets = offsets
        self.number = file.count
        self.is_written = False

    def write(self) -> None:
        """In a thread: write them, unless others were written since. Raises OSError."""
        with self._file.lock:
            if self.number == self._file.count:
                save_offsets(self._path, self.offsets)
                self.is_written = True
