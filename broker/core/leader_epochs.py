"""This room remembers where each leader epoch begins in a log: what truncation is decided on (KIP-101)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise

from broker.core.replica_log import EpochEnd
from muster.kernel.invariants import invariant

NO_EPOCH = -1


class LeaderEpochs:
    """First offset of each leader epoch that wrote into one log; both only grow.

    Only batches make an entry, never the becoming of a leader: a follower fetches with the epoch of
    its last batch (replication.md section 5).
    """

    __slots__ = ("_epochs", "_starts", "last_epoch")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        # Tuples: of ten thousand logs most have none of them, or one.
        self._epochs: tuple[int, ...] = ()
        self._starts: tuple[int, ...] = ()
        self.last_epoch = NO_EPOCH
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @classmethod
    def restored(cls, entries: Iterable[tuple[int, int]]) -> "LeaderEpochs":
        """Those of a stored form. Raises ValueError unless epochs and offsets grow."""
        listed = list(entries)
        for (epoch, start_offset), (later, behind) in pairwise(listed):
            if later <= epoch or behind < start_offset:
                raise ValueError(f"leader epoch {later} at {behind} behind {epoch} at {start_offset}")
        if listed and min(listed[0]) < 0:
            raise ValueError("a leader epoch or an offset below 0")
        return cls(listed)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(leader epoch, first offset), oldest first; given to a new one, it is the same."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, base_offset: int) -> None:
        """A batch of `epoch` was appended at `base_offset`."""
        if epoch == self.last_epoch:
            return
        invariant(epoch > self.last_epoch, "a batch of an older leader epoch was appended")
        invariant(not self._starts or base_offset >= self._starts[-1], "a leader epoch begins in another one")
        self._epochs += (epoch,)
        self._starts += (base_offset,)
        self.last_epoch = epoch

    def truncate(self, end_offset: int) -> None:
        """The log now ends at `end_offset`: epochs that began there or behind are forgotten."""
        keep = bisect_left(self._starts, end_offset)
        self._epochs, self._starts = self._epochs[:keep], self._starts[:keep]
        self.last_epoch = self._epochs[-1] if self._epochs else NO_EPOCH

    def begin_at(self, start_offset: int) -> None:
        """The log now begins at `start_offset`: epochs that ended before are forgotten."""
        gone = max(bisect_right(self._starts, start_offset) - 1, 0)
        self._epochs, self._starts = self._epochs[gone:], self._starts[gone:]
        if self._starts:
            self._starts = (max(self._starts[0], start_offset), *self._starts[1:])

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote the batch at `offset`, which lies within the log; −1: not known."""
        behind = bisect_right(self._starts, offset)
        return self._epochs[behind - 1] if behind else NO_EPOCH

    def end_of_epoch(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch not above `epoch` and where it ends; (−1, first known offset) below all."""
        behind = bisect_right(self._epochs, epoch)
        end_offset = self._starts[behind] if behind < len(self._starts) else log_end_offset
        return EpochEnd(self._epochs[behind - 1] if behind else NO_EPOCH, end_offset)


def offset_for_leader_epoch(
    epochs: LeaderEpochs, asked: int, current_leader_epoch: int, log_end_offset: int
) -> EpochEnd:
    """The answer to Kafka's OffsetForLeaderEpoch (conformance line 230).

    The leader's own epoch ends at the log end even before its first batch; above it nothing is known:
    (−1, −1); below the first known epoch: (the epoch asked, first known offset).
    """
    if asked == NO_EPOCH or asked > current_leader_epoch:
        return EpochEnd(NO_EPOCH, -1)
    if asked == current_leader_epoch:
        return EpochEnd(asked, log_end_offset)
    found = epochs.end_of_epoch(asked, log_end_offset)
    return found if found.epoch != NO_EPOCH else EpochEnd(asked, found.end_offset)
