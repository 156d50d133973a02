"""This room puts how a consumer stands into one word and one sentence, and says trouble sparingly."""

from enum import StrEnum
from typing import Final, NamedTuple

from muster.kernel.instants import Instant, elapsed_ms

PATIENCE_MS: Final = 3_000
"""A failover is over by then; nobody needs to hear of it."""

OTHER_WORDS_MS: Final = 10_000
SAME_WORDS_MS: Final = 60_000
"""How long trouble is not spoken of again, when it has changed and when it has not."""


class State(StrEnum):
    """How a consumer stands."""

    NEW = "new"
    """Not entered yet."""
    SEARCHING = "searching"
    """No coordinator is reached: nodes are away, refuse the token, or nobody serves the group just now."""
    WAITING = "waiting"
    """The coordinator does not let it in yet: another process uses its id, or the group is loaded."""
    IDLE = "idle"
    """A member of the group without a partition."""
    CONSUMING = "consuming"
    """It fetches its partitions."""
    STALLED = "stalled"
    """It owns partitions that it cannot fetch: brokers are away, or there is no leader."""
    AWAY = "away"
    """It left because no record was asked for in max_poll_interval_ms; asking for one brings it back."""
    CLOSED = "closed"
    """It has left the group."""
    FAILED = "failed"
    """It was refused for good; iterating raises why."""


class Standing(NamedTuple):
    """A state, why, and whether that is trouble somebody should look at."""

    state: State
    why: str = ""
    trouble: bool = False


class Reporter:
    """Decides when trouble is worth a line; `look` is asked about once a second."""

    def __init__(self) -> None:
        self._since: Instant | None = None
        self._said: str | None = None
        self._said_at = Instant(0)

    def look(self, standing: Standing, now: Instant) -> str:
        """What to warn of now, or that trouble is over; empty: nothing."""
        if not standing.trouble:
            over = self._said is not None
            self._since = self._said = None
            return f"well again: {standing.state}" if over else ""
        if self._since is None:
            self._since = now
        if elapsed_ms(self._since, now) < PATIENCE_MS:
            return ""
        text = f"{standing.state}: {standing.why}"
        quiet_ms = SAME_WORDS_MS if text == self._said else OTHER_WORDS_MS
        if self._said is not None and elapsed_ms(self._said_at, now) < quiet_ms:
            return ""
        self._said, self._said_at = text, now
        return text
