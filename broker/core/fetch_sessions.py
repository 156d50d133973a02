"""This room knows the rules of fetch sessions (KIP-227): whose turn it is, and which sessions are kept.

Pure: time is an argument. Followers and consumers count their turns alike. A follower has one session and
keeps it; consumers share slots, and give them up to each other as in Kafka: who was silent for a while goes
first, then who has been here for a while and fetches less than who comes.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, elapsed_ms

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
"""A request of this epoch names everything, and begins a session."""
FINAL_EPOCH: Final = -1
"""A request of this epoch names everything, and ends the session that it states, if any."""
_LAST_EPOCH: Final = 0x7FFFFFFF

MOST_EVICTED: Final = 10
"""For one that comes: to look for each costs time."""

Session = TypeVar("Session")


class FetchRefused(Exception):
    """The peer refused a whole fetch; the connection is given up."""


def next_number(number: int) -> int:
    """Of a session's epoch or of session ids: 1 follows the last, for 0 means something else."""
    return number % _LAST_EPOCH + 1


class Turns:
    """One session's id and the epoch that its next request has to state."""

    __slots__ = ("next_epoch", "session_id")

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.next_epoch = next_number(FIRST_EPOCH)

    @property
    def is_first(self) -> bool:
        """True as long as no request has gone on with it."""
        return self.next_epoch == next_number(FIRST_EPOCH)

    def take(self, session_epoch: int) -> ErrorCode:
        """Whether this request is the next one; then another is."""
        if session_epoch != self.next_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        self.next_epoch = next_number(session_epoch)
        return ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class SessionBounds:
    """What consumers may make a broker remember. Of all of it one address has at most half."""

    slots: int = 1_000
    """Kafka's `max.incremental.fetch.session.cache.slots`."""
    partitions: int = 250_000
    """Of all sessions together."""
    min_eviction_ms: int = 120_000
    """So long a session is kept though it is silent, or small; Kafka's number."""


@dataclass(slots=True)
class _Slot(Generic[Session]):
    session: Session
    address: str
    size: int
    since: Instant
    used_at: Instant


class _Kept(Generic[Session]):
    """Sessions that are kept, of all or of one address."""

    __slots__ = ("partitions", "sizes", "slots")

    def __init__(self) -> None:
        self.slots: dict[Session, _Slot[Session]] = {}
        """In the order in which they were used last."""
        self.sizes: Counter[int] = Counter()
        """How many sessions have so many partitions."""
        self.partitions = 0

    def add(self, slot: _Slot[Session]) -> None:
        self.slots[slot.session] = slot
        self.sizes[slot.size] += 1
        self.partitions += slot.size

    def remove(self, slot: _Slot[Session]) -> None:
        del self.slots[slot.session]
        self.sizes[slot.size] -= 1
        if not self.sizes[slot.size]:
            del self.sizes[slot.size]
        self.partitions -= slot.size

    def put_last(self, session: Session) -> None:
        self.slots[session] = self.slots.pop(session)

    def victim(self, size: int, now: Instant, min_eviction_ms: int) -> _Slot[Session] | None:
        """Kafka's choice for one that comes with so many partitions: the one used longest ago if that is long
        ago, else the smallest that may go.
        """
        longest_ago = next(iter(self.slots.values()), None)
        if longest_ago is None or elapsed_ms(longest_ago.used_at, now) > min_eviction_ms:
            return longest_ago
        if min(self.sizes) >= size:
            # Mostly all are alike: whoever finds no slot is not to look at a thousand with each fetch.
            return None
        may_go = (
            slot
            for slot in self.slots.values()
            if slot.size < size and elapsed_ms(slot.since, now) > min_eviction_ms
        )
        return min(may_go, key=lambda slot: slot.size, default=None)


class FetchSessions(Generic[Session]):
    """The sessions that are kept, and how many partitions they name together."""

    def __init__(self, bounds: SessionBounds) -> None:
        self._bounds = bounds
        self._all: _Kept[Session] = _Kept()
        self._of_address: dict[str, _Kept[Session]] = {}
        """Of each address that has any."""
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._all.slots)

    @property
    def partitions(self) -> int:
        """Of all sessions together."""
        return self._all.partitions

    def enter(self, session: Session, address: str, size: int, now: Instant) -> tuple[bool, list[Session]]:
        """(whether a session of so many partitions is kept from now on, who went for it)."""
        gone: list[Session] = []
        while not (is_kept := self._has_room(address, size)) and len(gone) < MOST_EVICTED:
            victim = self._victim(address, size, now)
            if victim is None:
                break
            self.leave(victim)
            gone.append(victim)
        self.evicted += len(gone)
        if is_kept:
            self._add(_Slot(session, address, size, now, now))
        return is_kept, gone

    def use(self, session: Session, size: int, now: Instant) -> bool:
        """It was asked again, and has so many partitions now; False: too many, it is kept no longer."""
        slot = self._all.slots[session]
        if size == slot.size:
            slot.used_at = now
            self._all.put_last(session)
            self._of_address[slot.address].put_last(session)
            return True
        more = size - slot.size
        is_kept = more <= 0 or (
            self.partitions + more <= self._bounds.partitions
            and self._has_room_of_address(slot.address, 0, more)
        )
        self._remove(slot)
        if is_kept:
            slot.size, slot.used_at = size, now
            self._add(slot)
        return is_kept

    def leave(self, session: Session) -> None:
        """It is over."""
        slot = self._all.slots.get(session)
        if slot is not None:
            self._remove(slot)

    def _add(self, slot: _Slot[Session]) -> None:
        self._all.add(slot)
        of_address = self._of_address.get(slot.address)
        if of_address is None:
            of_address = self._of_address[slot.address] = _Kept()
        of_address.add(slot)

    def _remove(self, slot: _Slot[Session]) -> None:
        self._all.remove(slot)
        of_address = self._of_address[slot.address]
        of_address.remove(slot)
        if not of_address.slots:
            del self._of_address[slot.address]

    def _has_room(self, address: str, size: int) -> bool:
        return (
            len(self) < self._bounds.slots
            and self.partitions + size <= self._bounds.partitions
            and self._has_room_of_address(address, 1, size)
        )

    def _has_room_of_address(self, address: str, sessions: int, partitions: int) -> bool:
        held = self._of_address.get(address)
        held_sessions, held_partitions = (0, 0) if held is None else (len(held.slots), held.partitions)
        return (
            held_sessions + sessions <= max(self._bounds.slots // 2, 1)
            and held_partitions + partitions <= self._bounds.partitions // 2
        )

    def _victim(self, address: str, size: int, now: Instant) -> Session | None:
        """Of all, or of the newcomer's own address if that has too many."""
        among = self._all
        if not self._has_room_of_address(address, 1, size):
            among = self._of_address.get(address) or _Kept()
        victim = among.victim(size, now, self._bounds.min_eviction_ms)
        return None if victim is None else victim.session
