"""This room remembers, per producer, what was stored last, so that a retried batch is stored once.

Leader and follower build it from the same batch headers; replication.md sections 4 and 5
(`ps_leader_only`, `ps_not_rolled`) say what is lost otherwise. Times are the log's, not the batch's:
a replay of old data must not make its own producer look expired.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from muster.kafkawire.batches import NO_PRODUCER, BatchHeader
from muster.kernel.error_codes import ErrorCode

REMEMBERED_BATCHES: Final = 5
"""As many as a producer may have in flight (KIP-98; `max.in.flight.requests.per.connection`)."""

MOST_PRODUCERS: Final = 5_000
"""So many producer ids are remembered in a partition; whoever wrote longest ago is forgotten first.

Anybody may state an id: unbounded, each record of 71 bytes would take a place in memory for a day."""

SEQUENCE_MASK: Final = 0x7FFFFFFF
"""Sequence numbers wrap behind it (KIP-98)."""


class StoredBatch(NamedTuple):
    """One batch that is in the log; both sequence numbers and both offsets are inclusive."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class Append(NamedTuple):
    """The batch is new and in sequence: append it."""

    is_strangers: bool = False
    """Nothing is known of its producer, and it is not its first batch."""


class Duplicate(NamedTuple):
    """The batch is in the log already: answer its old offset and append nothing."""

    base_offset: int
    last_offset: int


class Refused(NamedTuple):
    """The batch may not be appended, and why."""

    error_code: ErrorCode


Verdict = Append | Duplicate | Refused

_APPEND: Final = Append()
_STRANGERS: Final = Append(is_strangers=True)


class ProducerState(NamedTuple):
    """One producer id: its epoch and its last batches, the newest last."""

    epoch: int
    last_append_ms: int
    batches: tuple[StoredBatch, ...]


class Producers:
    """The producers of one partition. Nothing here reads a clock: times come with the call."""

    __slots__ = ("_most", "_states", "has_forgotten")

    def __init__(self, most: int = MOST_PRODUCERS) -> None:
        self._most = most
        self.has_forgotten = False
        """Somebody may be unknown of whom a batch lies in the log."""
        self._states: OrderedDict[int, ProducerState] = OrderedDict()
        """By producer id; whoever stored a batch last is the last."""

    def __len__(self) -> int:
        return len(self._states)

    def states(self) -> Iterable[tuple[int, ProducerState]]:
        """Each producer by its id; whoever stored a batch last is the last."""
        return tuple(self._states.items())

    def judge(self, header: BatchHeader) -> Verdict:
        """What the leader does with a batch that a producer sent.

        A producer that is not known may begin with any sequence number, because its history may
        have gone with retention (KIP-360).
        """
        if header.producer_id <= NO_PRODUCER:
            return _APPEND
        state = self._states.get(header.producer_id)
        if state is None:
            return _STRANGERS if header.base_sequence else _APPEND
        if header.producer_epoch < state.epoch:
            return Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        if header.producer_epoch > state.epoch:
            begins = header.base_sequence == 0
            return _APPEND if begins else Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        if not state.batches:
            return _APPEND
        if header.base_sequence == (state.batches[-1].last_sequence + 1) & SEQUENCE_MASK:
            return _APPEND
        wanted = (header.base_sequence, header.last_sequence)
        for stored in state.batches:
            if (stored.first_sequence, stored.last_sequence) == wanted:
                return Duplicate(stored.base_offset, stored.last_offset)
        return Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def leaves_a_gap(self, header: BatchHeader) -> bool:
        """True if a batch before this one is missing, or nothing is known of its producer."""
        return self.judge(header) in (_STRANGERS, Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))

    def stored(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """A batch is in the log now, with its first record at `base_offset`."""
        if header.producer_id <= NO_PRODUCER:
            return
        last_offset = base_offset + header.last_offset_delta
        batch = StoredBatch(header.base_sequence, header.last_sequence, base_offset, last_offset)
        state = self._states.get(header.producer_id)
        before = state.batches if state is not None and state.epoch == header.producer_epoch else ()
        stored = (*before, batch)[-REMEMBERED_BATCHES:]
        self._states[header.producer_id] = ProducerState(header.producer_epoch, now_ms, stored)
        self._states.move_to_end(header.producer_id)
        if len(self._states) > self._most:
            self._forget_oldest()

    def forget_silent(self, now_ms: int, expiration_ms: int) -> None:
        """Drop producers that have stored nothing for `expiration_ms` (`producer.id.expiration.ms`)."""
        while self._states:
            oldest = next(iter(self._states.values()))
            if now_ms - oldest.last_append_ms < expiration_ms:
                return
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        self._states.popitem(last=False)
        self.has_forgotten = True

    def saved(self) -> list[list[Any]]:
        """A form that JSON can hold; `restored` reads it."""
        return [
            [producer_id, state.epoch, state.last_append_ms, [list(batch) for batch in state.batches]]
            for producer_id, state in self._states.items()
        ]

    @classmethod
    def restored(cls, saved: Iterable[Any]) -> "Producers":
        """The producers of a saved form. Raises ValueError or TypeError if it is none."""
        producers = cls()
        for producer_id, epoch, last_append_ms, stored in saved:
            known = tuple(StoredBatch(*map(int, batch)) for batch in stored)
            producers._states[int(producer_id)] = ProducerState(int(epoch), int(last_append_ms), known)
        return producers
