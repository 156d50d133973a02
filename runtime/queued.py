"""This room holds what waits for the next turn of one key of a lane, and who waits for that."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from runtime.ports import LaneLost, Subject


@dataclass(slots=True)
class Queued:
    """What waits for the next turn of one key."""

    subject: Subject[Any, Any]
    key: str
    events: list[Any] = field(default_factory=list)
    spoken: list[tuple[int, "asyncio.Future[None]"]] = field(default_factory=list)
    """Who waits, and how many events there were when they came: the turn that decides so many tells them."""

    def take(self, most: int) -> "Queued":
        """The first `most` events and who waits for no more than these; the others stay."""
        first = Queued(self.subject, self.key, self.events[:most])
        first.spoken = [(count, future) for count, future in self.spoken if count <= most]
        self.spoken = [(count - most, future) for count, future in self.spoken if count > most]
        del self.events[:most]
        return first

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
