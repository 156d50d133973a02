"""This room says to callers what was decided: each hears all of it in order, and none of it holds the loop.

A turn of a large group says thousands of things. They are said in slices, and between two of them the loop
reads, answers, renews. The rule is:

- To one caller everything passes here, and is said in the order in which it came: who has something waiting
  hears what comes later behind it, be it of another turn, a commit's answer, or the hang-up. Between callers
  there is no order.
- What waits is right at any later time. It was decided under the lease and is durable, or changes nothing,
  and its delay is like a slow network's, which every rule of a member and of an owner bears: also when the
  next turn is decided, the lease lost or the group handed over meanwhile (leases.md section 3, "speak, at any
  later time"). Who then is hung up on hears that last.
- Who is gone hears nothing. Who breaks the protocol is cut off by its door at once, and what waits is lost.

How much may wait is bounded by what callers may leave unanswered (`callers.HELD_MAX`, and their doors).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import structlog

from coordinator.callers import Callers
from coordinator.core.events import ConnectionId, HangUp, Saying
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after

SLICE_MS = 4
"""For so long the node speaks in one round of its loop, whoever it speaks for: what Kafka clients are told
leaves only behind it, and everybody's heartbeats wait for its end.
"""

ANSWERS_A_LOOK = 16
"""So many partitions of commits are answered before the clock is looked at again, mostly one of each commit,
which is some microseconds of work; of a commit of thousands each partition may be told its own error.
"""

HANG_UPS_A_SLICE = 100
"""Each of them wakes a task that has much more to do in the next round."""

log = structlog.get_logger(__name__)


class Speech:
    """What the coordinators of one node say, of all shards together: it is one loop that they share."""

    def __init__(self, callers: Callers, now: Callable[[], Instant]) -> None:
        self._callers = callers
        self._now = now
        self._unsaid: deque[tuple[ConnectionId, Callable[[Any], None], Any]] = deque()
        self._waiting: set[ConnectionId] | None = None
        """For whom something is unsaid, or was in this round; known as soon as somebody asks."""
        self._ends_at: Instant | None = None
        self._hang_ups = 0
        self._answers = 0
        # Made once: a turn of thousands would make one for each of them.
        self._words = self._utter

    def say(self, saying: Saying) -> None:
        """Tell a caller, or hang up on it: now, or in a later round of the loop."""
        self._answers = 0
        self.answer(saying.connection, self._words, saying)

    def answer(self, to: ConnectionId, utter: Callable[[Any], None], what: Any, partitions: int = 1) -> None:
        """The same for a commit's answer, which has its own words: `utter` is called with `what`.

        Raises what `utter` raises, if it is said now.
        """
        if self._unsaid:
            # Then this slice is over.
            self._wait(to, utter, what)
        elif self._answers > 0:
            self._answers -= partitions
            utter(what)
        elif self._is_slice_over():
            self._wait(to, utter, what)
        else:
            self._answers = ANSWERS_A_LOOK - partitions + 1
            utter(what)

    def answer_at_once(self, to: ConnectionId, utter: Callable[[Any], None], what: Any) -> None:
        """A door's own answer to what was just heard, of which there is no storm."""
        if self._unsaid and to in self._who_waits():
            self._wait(to, utter, what)
        else:
            utter(what)

    def _wait(self, to: ConnectionId, utter: Callable[[Any], None], what: Any) -> None:
        self._unsaid.append((to, utter, what))
        if self._waiting is not None:
            self._waiting.add(to)

    def _who_waits(self) -> set[ConnectionId]:
        if self._waiting is None:
            self._waiting = {to for to, _, _ in self._unsaid}
        return self._waiting

    def _utter(self, saying: Saying) -> None:
        caller = self._callers.get(saying.connection)
        if caller is None:
            return
        if isinstance(saying, HangUp):
            self._hang_ups += 1
            caller.hang_up(saying.error_code, saying.text)
        else:
            caller.say(saying.message)

    def _say_late(self, to: ConnectionId, utter: Callable[[Any], None], what: Any) -> None:
        try:
            utter(what)
        except Exception:
            # The turn is over: a mistake of ours costs its caller the connection, and nobody else a word.
            log.exception("something could not be said", connection=to)
            caller = self._callers.get(to)
            if caller is not None:
                caller.hang_up(ErrorCode.UNKNOWN_SERVER_ERROR, "")

    def _is_slice_over(self) -> bool:
        if self._ends_at is None:
            self._hang_ups = 0
            self._ends_at = after(self._now(), SLICE_MS)
            self._rest(self._next_round)
            return False
        return self._hang_ups >= HANG_UPS_A_SLICE or self._now() >= self._ends_at

    def _rest(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when all others of the loop had their turn."""
        asyncio.get_running_loop().call_soon(go_on)

    def _next_round(self) -> None:
        self._ends_at = self._waiting = None
        unsaid = self._unsaid
        while unsaid:
            if self._is_slice_over():
                return
            to, utter, what = unsaid.popleft()
            self._say_late(to, utter, what)
