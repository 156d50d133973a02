"""This room bounds the memory of requests that have begun to arrive, over all connections of a door.

Memory is asked for as bytes come, never for a promise. When it is used up, connections wait in the order
in which they asked; one at a time gets what it needs all the same, or frames that have only begun could
hold everything and none would ever end.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Holder = TypeVar("Holder")


class RequestMemory(Generic[Holder]):
    """Bytes held, and who waits for more. `wake` is called when memory that was asked for is there.

    It holds no buffer: who took bytes gives back as many.
    """

    def __init__(self, limit_bytes: int, wake: Callable[[Holder], None]) -> None:
        self.held_bytes = 0
        self._limit_bytes = limit_bytes
        self._wake = wake
        self._waiting: OrderedDict[Holder, int] = OrderedDict()
        """Whose first is found at once: a dict looks at all that were deleted before it."""
        self._turn: Holder | None = None
        self.turns = 0
        """How many turns were given so far: each has its own time."""

    @property
    def is_short(self) -> bool:
        """True if somebody waits or would have to: nothing is kept for later."""
        return bool(self._waiting) or self._turn is not None or self.held_bytes >= self._limit_bytes

    def has_turn(self, who: Holder) -> bool:
        """True for the one that may go beyond the limit, until its frame has been served."""
        return self._turn is who

    def holder_of(self, turn: int) -> Holder | None:
        """Who has the turn of this number still; None: it is over."""
        return self._turn if self.turns == turn else None

    def hold(self, size_bytes: int) -> None:
        """Count bytes that are here already."""
        self.held_bytes += size_bytes

    def take(self, who: Holder, size_bytes: int) -> bool:
        """True if `who` may have that much more; else it waits until `wake`, which has taken it then."""
        fits = not self._waiting and self.held_bytes + size_bytes <= self._limit_bytes
        if fits or self._turn is who:
            self.held_bytes += size_bytes
            return True
        self._waiting[who] = size_bytes
        self._serve_waiting()
        return False

    def give_back(self, size_bytes: int) -> None:
        """Bytes are free again."""
        self.held_bytes -= size_bytes
        self._serve_waiting()

    def frame_served(self, who: Holder) -> None:
        """`who` needs no turn any more."""
        if self._turn is who:
            self._turn = None
            self._serve_waiting()

    def leave(self, who: Holder) -> None:
        """`who` is gone and waits no longer."""
        self._waiting.pop(who, None)
        self.frame_served(who)

    def _serve_waiting(self) -> None:
        while self._waiting:
            who, size_bytes = next(iter(self._waiting.items()))
            if self.held_bytes + size_bytes > self._limit_bytes:
                if self._turn is not None:
                    return
                self._turn = who
                self.turns += 1
            del self._waiting[who]
            self.held_bytes += size_bytes
            self._wake(who)
