"""This room remembers what each reassignment that has not begun waits for, so that no turn looks at all."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from muster.messages.link.rows import PartitionKey

NOTHING_YET: Final = -2
"""Nobody has looked at it since it was asked for."""
ALL_BROKERS: Final = 0
"""As many are in progress as may be in all; brokers are numbered from 1, and −1 leads what has no leader."""


LOGS_SHOWN: Final = -3
"""Its partition is unproven: whoever came to it now would be asked what it held before (ADR 22)."""


class WaitingMoves:
    """Each by the broker that is too busy for it, in the order in which it began to wait there."""

    def __init__(self) -> None:
        self._place: dict[PartitionKey, int] = {}
        self._queues: dict[int, dict[PartitionKey, None]] = {}

    def __len__(self) -> int:
        return len(self._place)

    def copy(self) -> "WaitingMoves":
        other = WaitingMoves()
        other._place = dict(self._place)
        other._queues = {place: dict(queue) for place, queue in self._queues.items()}
        return other

    def begin_anew(self, keys: Iterable[PartitionKey]) -> None:
        """Forget all, and wait for nothing yet with each of `keys`, in the order of asking."""
        self._place.clear()
        self._queues.clear()
        for key in keys:
            self.wait(key, NOTHING_YET)

    def wait(self, key: PartitionKey, place: int) -> None:
        """`key` waits at the end of this queue and of no other."""
        self.forget(key)
        self._place[key] = place
        self._queues.setdefault(place, {})[key] = None

    def forget(self, key: PartitionKey) -> None:
        """It began, or is over."""
        place = self._place.pop(key, None)
        if place is not None:
            queue = self._queues[place]
            del queue[key]
            if not queue:
                del self._queues[place]

    def shown(self, keys: Iterable[PartitionKey]) -> None:
        """The logs of these were shown: what waited for that waits for nothing yet."""
        queue = self._queues.get(LOGS_SHOWN, {})
        for key in [one for one in keys if one in queue]:
            self.wait(key, NOTHING_YET)

    def waits_for_logs(self) -> bool:
        """True if something waits for logs to be shown."""
        return LOGS_SHOWN in self._queues

    def places(self) -> list[int]:
        """Where something waits for room: what waits for all before what waits for one, the newest last."""
        places = self._queues.keys() - {LOGS_SHOWN}
        return sorted(places, key=lambda place: (place == NOTHING_YET, place))

    def at(self, place: int, most: int) -> Iterator[PartitionKey]:
        """The first of a queue, which may change meanwhile."""
        return iter(tuple(islice(self._queues.get(place, ()), most)))
