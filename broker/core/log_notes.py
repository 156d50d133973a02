"""This room keeps what people were told of logs on this link, and says what is otherwise by now."""

from collections.abc import Mapping
from typing import NamedTuple

from broker.core.replica_log import PartitionKey
from muster.kernel.instants import Instant, elapsed_ms
from muster.messages.limits import MAX_ROWS_PER_FRAME
from muster.messages.link.condition import SOUND, LogNote


class LogState(NamedTuple):
    """One of LOG_STATES; why; and where the log ends, if that says something (−1: it does not)."""

    state: str
    why: str = ""
    end_offset: int = -1


class LogNotes:
    """The link may be new to who listens: then everything is said again."""

    def __init__(self) -> None:
        self._told: dict[PartitionKey, LogState] = {}
        self._since: dict[PartitionKey, Instant] = {}
        """When each that is not sound was first found in its present state."""

    def begin(self) -> None:
        """Nobody was told anything."""
        self._told.clear()

    def news(self, present: Mapping[PartitionKey, LogState], now: Instant) -> tuple[LogNote, ...]:
        """What is to be said of logs, at most MAX_ROWS_PER_FRAME of them; the next call says the rest."""
        if not (present or self._told or self._since):
            return ()
        self._since = {
            key: self._since[key] if key in self._since and self._same(key, one) else now
            for key, one in present.items()
        }
        changed = [key for key, one in present.items() if self._told.get(key) != one]
        changed += [key for key in self._told if key not in present]
        notes = []
        for key in changed[:MAX_ROWS_PER_FRAME]:
            one = present.get(key)
            if one is None:
                del self._told[key]
                notes.append(LogNote(*key, SOUND))
            else:
                self._told[key] = one
                age_ms = elapsed_ms(self._since[key], now)
                notes.append(LogNote(*key, one.state, one.why, one.end_offset, age_ms))
        return tuple(notes)

    def _same(self, key: PartitionKey, one: LogState) -> bool:
        told = self._told.get(key)
        return told is None or told.state == one.state
