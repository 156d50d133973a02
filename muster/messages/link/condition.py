"""This room holds how a broker says it is, for people: its disk, its logs in trouble, clients that wait.

Two things are decided on it: whose disk is full is not preferred as a leader, and is the last choice for new
replicas. What cannot be used is told by UnusableLogs, what was lost by BrokerHello.
"""

from typing import Annotated, Final
from uuid import UUID

import msgspec

from muster.messages.limits import FRAMEFUL

OFFLINE: Final = "offline"
"""The log can neither be read nor written by this process."""

DAMAGED: Final = "damaged"
"""The log lacks what it once held, and has not copied it again from a leader."""

MENDED: Final = "mended"
"""It was damaged, and has copied again what its leader holds."""

LEADERLESS: Final = "leaderless"
"""Nobody leads the partition; `end_offset` says how much of it this replica holds."""

SOUND: Final = ""
"""Nothing is to be said of it any more."""

LOG_STATES: Final = (OFFLINE, DAMAGED, MENDED, LEADERLESS)

MOST_THROTTLED: Final = 50
"""Clients that are named; of more only the number is said."""


class LogNote(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How one log is; `why` in the words of whoever found it, since so many milliseconds."""

    topic_id: UUID
    partition: int
    state: str
    why: str = ""
    end_offset: int = -1
    age_ms: int = 0


class LagNote(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """At the leader that says it acks=all is refused, as these live members of the ISR do not keep up.

    Nobody is named: it is not refused for that any more. Found so many milliseconds ago.
    """

    topic_id: UUID
    partition: int
    lagging: Annotated[tuple[int, ...], FRAMEFUL] = ()
    age_ms: int = 0


class Disk(msgspec.Struct, frozen=True):
    """The file system of the logs; with less than `reserve_bytes` usable nothing is taken from producers."""

    total_bytes: int
    usable_bytes: int
    reserve_bytes: int

    @property
    def is_full(self) -> bool:
        """The broker takes no records from producers."""
        return self.usable_bytes < self.reserve_bytes


class ThrottledClient(msgspec.Struct, frozen=True):
    """Whoever shares a quota and is made to wait by it, time and again, since so many milliseconds.

    `user`, `client_id`: as in `muster.messages.link.quotas.QuotaKey`, but named where the default holds.
    `wait_ms` is what the latest answer said.
    """

    user: str | None
    client_id: str | None
    quota: str
    rate: int
    wait_ms: int
    answers: int
    age_ms: int


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since the condition before; the first of a link states all of it.

    `disk` and `throttled` are whole, but for more than MOST_THROTTLED, `logs` and `lags` those that are
    otherwise than was said, at most MAX_ROWS_PER_FRAME each: the rest follows. `begins`: what was said on
    other links counts no more.
    `version`: what the broker runs, each time; empty: a version that does not say.
    """

    disk: Disk | None = None
    throttled: Annotated[tuple[ThrottledClient, ...], msgspec.Meta(max_length=MOST_THROTTLED)] = ()
    throttled_more: int = 0
    logs: Annotated[tuple[LogNote, ...], FRAMEFUL] = ()
    begins: bool = False
    version: str = ""
    lags: Annotated[tuple[LagNote, ...], FRAMEFUL] = ()
