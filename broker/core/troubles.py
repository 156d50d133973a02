"""This room keeps which logs cannot be used, and what of that the controller has not been told yet."""

from itertools import islice
from typing import Final, NamedTuple

from broker.core.replica_log import PartitionKey
from muster.messages.limits import MAX_ROWS_PER_FRAME, MAX_UNUSABLE_PER_HELLO

_NOT_OPENED: Final = ""


class Told(NamedTuple):
    """What changed since it was told last: logs that cannot be used any more, and others that can again."""

    failed: tuple[PartitionKey, ...]
    usable: tuple[PartitionKey, ...]


class Troubles:
    """Logs that failed stay so until the process ends; one that has no room may be written again."""

    def __init__(self) -> None:
        self._failed: dict[PartitionKey, str] = {}
        """Why it could not be opened; "": it failed later."""
        self._full: set[PartitionKey] = set()
        self._told: set[PartitionKey] = set()
        self._untold: dict[PartitionKey, None] = {}

    @property
    def unusable(self) -> tuple[PartitionKey, ...]:
        """All of them, in order."""
        return tuple(sorted(self._failed.keys() | self._full))

    @property
    def has_news(self) -> bool:
        """True if the controller may believe something else."""
        return bool(self._untold)

    def reason(self, key: PartitionKey) -> str:
        """Why the log could not be opened; "" if it could, or was not tried."""
        return self._failed.get(key, _NOT_OPENED)

    def fail(self, key: PartitionKey, why_not_opened: str = _NOT_OPENED) -> None:
        """The log can neither be read nor written until the process starts again."""
        self._failed[key] = why_not_opened
        self._untold[key] = None

    def fill(self, key: PartitionKey) -> None:
        """No more can be stored, and somebody else may have room."""
        self._full.add(key)
        self._untold[key] = None

    def is_full(self, key: PartitionKey) -> bool:
        return key in self._full

    def empty(self, key: PartitionKey) -> bool:
        """It may be written again; False if it was not full."""
        if key not in self._full:
            return False
        self._full.discard(key)
        self._untold[key] = None
        return True

    def forget(self, key: PartitionKey) -> bool:
        """This broker holds the partition no more; False if there was no trouble with it."""
        had_failed = self._failed.pop(key, None) is not None
        if had_failed:
            self._untold[key] = None
        return self.empty(key) or had_failed

    # -- telling

    def whole(self) -> tuple[PartitionKey, ...]:
        """What a hello states; what does not fit into it is news behind it."""
        everything = self.unusable
        stated = everything[:MAX_UNUSABLE_PER_HELLO]
        self._told = set(stated)
        self._untold = dict.fromkeys(everything[MAX_UNUSABLE_PER_HELLO:])
        return stated

    def news(self) -> Told:
        """The next frame of what is not told yet; nothing if that is all."""
        failed: list[PartitionKey] = []
        usable: list[PartitionKey] = []
        for key in list(islice(self._untold, MAX_ROWS_PER_FRAME)):
            del self._untold[key]
            cannot_be_used = key in self._failed or key in self._full
            if cannot_be_used != (key in self._told):
                (failed if cannot_be_used else usable).append(key)
        self._told.update(failed)
        self._told.difference_update(usable)
        return Told(tuple(failed), tuple(usable))
