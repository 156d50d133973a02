"""This room knows the rules of fetch sessions (KIP-227): whose turn it is, and which sessions are kept.

Pure: time is an argument. Followers and consumers count their turns alike. A follower has one session and
keeps it; consumers share slots, and give them up to each other as in Kafka: who was silent for a while goes
first, then who has been here for a while and fetches less than who comes.
"""

from collections.abc import Iterable
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


class FetchSessions(Generic[Session]):
    """The sessions that are kept, and how many partitions they name together."""

    def __init__(self, bounds: SessionBounds) -> None:
        self._bounds = bounds
        self._slots: dict[Session, _Slot[Session]] = {}
        """In the order in which they were used last."""
        self._of_address: dict[str, list[int]] = {}
        """(sessions, partitions) of each address that has any."""
        self.partitions = 0
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._slots)

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
            self._slots[session] = _Slot(session, address, size, now, now)
            self._count(address, 1, size)
        return is_kept, gone

    def use(self, session: Session, size: int, now: Instant) -> bool:
        """It was asked again, and has so many partitions now; False: too many, it is kept no longer."""
        slot = self._slots.pop(session)
        more = size - slot.size
        if more > 0 and not (
            self.partitions + more <= self._bounds.partitions
            and self._has_room_of_address(slot.address, 0, more)
        ):
            self._count(slot.address, -1, -slot.size)
            return False
        slot.size, slot.used_at = size, now
        self._slots[session] = slot
        self._count(slot.address, 0, more)
        return True

    def leave(self, session: Session) -> None:
        """It is over."""
        slot = self._slots.pop(session, None)
        if slot is not None:
            self._count(slot.address, -1, -slot.size)

    def _count(self, address: str, sessions: int, partitions: int) -> None:
        held = self._of_address.setdefault(address, [0, 0])
        held[0] += sessions
        held[1] += partitions
        if not held[0]:
            del self._of_address[address]
        self.partitions += partitions

    def _has_room(self, address: str, size: int) -> bool:
        return (
            len(self._slots) < self._bounds.slots
            and self.partitions + size <= self._bounds.partitions
            and self._has_room_of_address(address, 1, size)
        )

    def _has_room_of_address(self, address: str, sessions: int, partitions: int) -> bool:
        held_sessions, held_partitions = self._of_address.get(address, (0, 0))
        return (
            held_sessions + sessions <= max(self._bounds.slots // 2, 1)
            and held_partitions + partitions <= self._bounds.partitions // 2
        )

    def _victim(self, address: str, size: int, now: Instant) -> Session | None:
        """Kafka's choice: the one used longest ago if that is long ago, else the smallest that may go.

        Of all, or of the newcomer's own address if that has too many.
        """
        candidates: Iterable[_Slot[Session]] = self._slots.values()
        if not self._has_room_of_address(address, 1, size):
            candidates = [slot for slot in candidates if slot.address == address]
        smallest: _Slot[Session] | None = None
        for number, slot in enumerate(candidates):
            if not number and elapsed_ms(slot.used_at, now) > self._bounds.min_eviction_ms:
                return slot.session
            if elapsed_ms(slot.since, now) > self._bounds.min_eviction_ms and slot.size < size:
                smallest = slot if smallest is None or slot.size < smallest.size else smallest
        return None if smallest is None else smallest.session
