"""This room holds what waits for the next turns of the keys of a lane, and who waits for that."""

import asyncio
import contextlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from runtime import metrics
from runtime.ports import LaneLost, SharingSubject, Subject

TURN_WEIGHT_MAX = 1_000
"""What more waits for one key is decided in its next turn: a turn stops the loop while it decides, and its
transaction is ended by the server after two seconds. Each common event weighs 1 (ports.Subject.weight).
"""

TOGETHER_MAX = 100
"""Turns that share one transaction: some milliseconds of the loop, beside the wait for a disk."""

TOGETHER_ROWS_MAX = 10_000
"""Rows that these may write: a tenth of what the server ends a transaction for."""

Place = tuple[int, str]
"""Of a subject and one of its keys."""


@dataclass(slots=True)
class Queued:
    """What waits for the next turn of one key."""

    subject: Subject[Any, Any]
    key: str
    events: list[Any] = field(default_factory=list)
    sharing: SharingSubject[Any, Any] | None = None
    """The subject, where this turn may be written in one transaction with those of other keys."""
    spoken: list[tuple[int, "asyncio.Future[None]"]] = field(default_factory=list)
    """Who waits, and how many events there were when they came: the turn that decides so many tells them."""

    def borne(self) -> int:
        """How many of the first events are one turn: at least one, if there are any."""
        weight = 0
        for number, event in enumerate(islice(self.events, TURN_WEIGHT_MAX + 1)):
            weight += self.subject.weight(event)
            if weight > TURN_WEIGHT_MAX:
                return max(number, 1)
        return len(self.events)

    def take(self, most: int) -> "Queued":
        """The first `most` events and who waits for no more than these; the others stay."""
        first = Queued(self.subject, self.key, self.events[:most])
        first.spoken = [(count, future) for count, future in self.spoken if count <= most]
        self.spoken = [(count - most, future) for count, future in self.spoken if count > most]
        del self.events[:most]
        return first

    def put_before(self, events: Sequence[Any]) -> None:
        """These came before all that waits here."""
        self.events[:0] = events
        self.spoken = [(count + len(events), future) for count, future in self.spoken]

    def tell(self, error: Exception | None = None) -> None:
        """Whoever waits hears that it is over, or what went wrong."""
        for _, future in self.spoken:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
                # Whoever does not wait any more was told by other means.
                future.exception()

    @contextlib.contextmanager
    def telling(self, lost: LaneLost) -> Iterator[None]:
        """Whoever waits hears of what goes wrong, or that the lane is `lost`; and this is where it ends."""
        try:
            yield
        except BaseException as error:
            self.tell(error if isinstance(error, Exception) else lost)
            if not isinstance(error, Exception):
                raise


class Line:
    """Whatever waits in one lane; `submit` queues a job that takes what waits at a place by then."""

    def __init__(self, submit: Callable[[Place], None]) -> None:
        self._submit = submit
        self._waiting: dict[Place, Queued] = {}

    def __contains__(self, place: Place) -> bool:
        return place in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def at(
        self, subject: Subject[Any, Any], key: str, sharing: SharingSubject[Any, Any] | None = None
    ) -> Queued:
        """What waits for this key, or shall from now on."""
        place = (id(subject), key)
        waiting = self._waiting.get(place)
        if waiting is None:
            waiting = Queued(subject, key, sharing=sharing)
            self._add(place, waiting)
        elif sharing is None:
            waiting.sharing = None
        return waiting

    def take(self, place: Place) -> Queued | None:
        """What the next turn of this key decides; if more waits, it queues behind the other keys."""
        waiting = self._waiting.get(place)
        if waiting is None:
            return None
        most = waiting.borne()
        if most < len(waiting.events):
            self._submit(place)
            return waiting.take(most)
        self.drop(place)
        return waiting

    def take_others(
        self, subject: SharingSubject[Any, Any], key: str, left_out: Container[Place]
    ) -> Sequence[Queued]:
        """What waits for other keys and may be written with this one, as much as one transaction bears."""
        places: list[Place] = []
        rows = subject.size(key)
        for place, waiting in self._waiting.items():
            if waiting.sharing is subject and place not in left_out:
                rows += subject.size(waiting.key)
                if rows > TOGETHER_ROWS_MAX or len(places) + 1 >= TOGETHER_MAX:
                    break
                places.append(place)
        return [waiting for waiting in map(self.take, places) if waiting is not None]

    def put_back(self, place: Place, taken: Queued) -> None:
        """It came to nothing beside others: before whatever came meanwhile it has a turn for itself."""
        later = self._waiting.get(place)
        if later is None:
            self._add(place, taken)
            later = taken
        else:
            later.put_before(taken.events)
        later.sharing = None

    def drop(self, place: Place) -> Queued | None:
        """Nothing waits there any more; what did."""
        waiting = self._waiting.pop(place, None)
        if waiting is not None:
            metrics.lane_queue.dec()
        return waiting

    def tell_all(self, lost: LaneLost) -> None:
        """Nothing is decided any more: whoever waits hears it."""
        metrics.lane_queue.dec(len(self._waiting))
        for waiting in self._waiting.values():
            waiting.tell(lost)
        self._waiting.clear()

    def _add(self, place: Place, waiting: Queued) -> None:
        self._waiting[place] = waiting
        metrics.lane_queue.inc()
        self._submit(place)
