"""This room remembers under which leader epochs a partition was read, to tell another log from it (KIP-320).

What was read ended with a batch of some epoch. A leader that does not know this batch says where its own log
parts from it: an election lost records, or the partition was removed and another has its number by now.
"""

from typing import Final, NamedTuple

NO_EPOCH: Final = -1

MOST_EPOCHS: Final = 100
"""Of more elections behind each other nobody needs to know: it goes on at the oldest of these then."""


class Parting(NamedTuple):
    """What a leader says of where it parts: its newest epoch not above the stated one, and its end."""

    epoch: int
    end_offset: int


class History:
    """Where each leader epoch begins in what was fetched; `before`: the epoch of what lies before that."""

    __slots__ = ("_epochs", "before")

    def __init__(self) -> None:
        self.before = NO_EPOCH
        self._epochs: list[tuple[int, int]] = []

    def forget(self, epoch: int = NO_EPOCH) -> None:
        """Begin anew, behind a batch of this epoch."""
        self.before = epoch
        self._epochs.clear()

    def note(self, offset: int, epoch: int) -> None:
        """A batch was fetched behind the others."""
        epochs = self._epochs
        if epochs and epochs[-1][1] == epoch:
            return
        epochs.append((offset, epoch))
        if len(epochs) > MOST_EPOCHS:
            _, self.before = epochs.pop(0)

    def until(self, offset: int, epoch: int) -> "History":
        """What was read before `offset`; where that is not known, as if it ended with a batch of `epoch`.

        The leader may part from that, too, further down: its own epoch says nothing of what was read.
        """
        made = History()
        made.before, made._epochs = self.before, [one for one in self._epochs if one[0] < offset]
        if not NO_EPOCH < made.last_epoch <= epoch:
            made.forget(epoch)
        return made

    def cut(self, offset: int) -> None:
        """What lies behind `offset` is fetched again."""
        while self._epochs and self._epochs[-1][0] >= offset:
            self._epochs.pop()

    @property
    def last_epoch(self) -> int:
        """Of the last batch that was fetched; −1: not known."""
        return self._epochs[-1][1] if self._epochs else self.before

    def parts_at(self, told: Parting) -> int:
        """Up to where what was read may be what the leader holds (KIP-101)."""
        later = (start for start, epoch in self._epochs if epoch > told.epoch)
        return min(told.end_offset, next(later, told.end_offset))
