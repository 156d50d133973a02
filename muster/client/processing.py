"""This room hands records to the application one by one, and knows which of them it has finished.

The application finishes a record by asking for the next one. Before each record the member's own
deadline is looked at: a record of a partition that may be another's already is never handed out.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Final

from muster.client import clock
from muster.client.fetching import Fetching
from muster.client.record import Record
from muster.client.tenure import Stream, Tenure
from muster.kernel.instants import Instant

TURN_MS: Final = 10
"""An application that never waits gets the event loop for this long before pings are answered again."""

_NOTHING: Final[deque[Record]] = deque()


class Hand:
    """What one reader of records holds: one record at a time, of `stream` or (None) of all partitions.

    `take` may be called in another thread than the loop's, under `Fetching.guard`; nothing else may.
    `count` is how many records it was given, `asked` whether it waits for one, `since` when it got the last.
    """

    def __init__(self, processing: "Processing", stream: Stream | None = None) -> None:
        self.stream = stream
        self.in_hand: Tenure | None = None
        self.count = 0
        self.asked = False
        self.stopped = False
        self.since = clock.now()
        self._processing = processing
        self._tenure: Tenure | None = None
        self._ready = _NOTHING
        self._turn_began = self.since
        self._allowed_at = Instant(0)

    def take(self) -> Record | None:
        """Finish the record in hand; the next one, if it is ready. None: call `prepare`."""
        now = clock.now()
        processing, in_hand, tenure = self._processing, self.in_hand, self._tenure
        if in_hand is not None:
            in_hand.finished_to = in_hand.delivered_to
            self.in_hand = None
            if processing.waiting:
                processing.tell_free()
        if not self._ready or tenure is None or now >= self._turn_began + TURN_MS:
            return None
        if now != self._allowed_at:
            # Deadlines only move on: within one millisecond the answer is the same.
            if not processing.may_fetch(now):
                return None
            self._allowed_at = now
        record = self._ready.popleft()
        tenure.delivered_to = record[2] + 1
        self.in_hand = tenure
        self.since = now
        self.count += 1
        return record

    def take_more(self, count: int) -> list[Record]:
        """Up to `count` records that are ready behind the one just taken, of its partition."""
        tenure = self.in_hand
        if tenure is None or count <= 0:
            return []
        records = list(islice(self._ready, count))
        for _ in records:
            self._ready.popleft()
        if records:
            tenure.delivered_to = records[-1].offset + 1
            self.count += len(records)
        return records

    def finish(self) -> None:
        """The application is done with the record that it holds, if it holds one."""
        if self.in_hand is not None:
            self.in_hand.finished_to = self.in_hand.delivered_to
        self.release()

    def release(self) -> None:
        """The application goes away from the record that it holds, without having finished it."""
        self.in_hand = None
        if self._processing.waiting:
            self._processing.tell_free()

    async def prepare(self) -> bool:
        """Wait until `take` has something to give; False: it never will, this is over."""
        processing = self._processing
        self.asked = True
        processing.come_back()
        try:
            if clock.now() >= self._turn_began + TURN_MS:
                await asyncio.sleep(0)
                self._turn_began = clock.now()
            while not processing.closed and not self.stopped:
                if not self._ready:
                    await self._find()
                elif processing.may_fetch(clock.now()):
                    return True
                else:
                    # The session ends the tenures, and so empties what is ready, before this goes on.
                    processing.look_at_the_clock()
                    await asyncio.sleep(0)
            return False
        finally:
            self.asked, self.since = False, clock.now()

    async def next_record(self) -> Record | None:
        """Finish the record in hand and wait for the next one; None once closed."""
        while (record := self.take()) is None:
            if not await self.prepare():
                return None
        return record

    def let_go(self, tenure: Tenure | None = None) -> None:
        """Hand out nothing more of this tenure (None: of any), until it is found again."""
        if tenure is None or self._tenure is tenure:
            self._ready = _NOTHING

    def stop(self) -> None:
        """Nothing more is handed out here; whoever waits is told."""
        with self._processing.fetching.guard:
            self.stopped = True
            self._ready = _NOTHING
        self._processing.fetching.interrupt()

    async def _find(self) -> None:
        fetching = self._processing.fetching
        with fetching.guard:
            self.put_down()
        tenure = await fetching.fill(self._wants)
        if tenure is not None:
            with fetching.guard:
                tenure.holder, self._tenure, self._ready = self, tenure, tenure.ready

    def put_down(self) -> None:
        """Others may hand out what it handed out; called on the loop, under the guard."""
        tenure, self._tenure, self._ready = self._tenure, None, _NOTHING
        if tenure is not None and tenure.holder is self:
            tenure.holder = None
            if tenure.has_news and not tenure.ended:
                self._processing.fetching.look_again(tenure)

    def _wants(self, tenure: Tenure) -> bool:
        if tenure.resting or tenure.holder not in (None, self):
            return False
        return self.stream is None or (
            tenure.stream == self.stream and not self._processing.holds(tenure, besides=self)
        )


class Processing:
    """The readers of one consumer: `main`, or one hand for each stream.

    `may_fetch` is the session's word that its deadline has not passed; `look_at_the_clock` tells the session
    that it has; `come_back` hears that somebody waits for a record. `tell_free` wakes whoever waits until
    the application lets go of a record; another thread may not call it as it is.
    """

    def __init__(
        self,
        fetching: Fetching,
        may_fetch: Callable[[Instant], bool],
        look_at_the_clock: Callable[[], None] = lambda: None,
        come_back: Callable[[], None] = lambda: None,
    ) -> None:
        self.fetching = fetching
        self.may_fetch = may_fetch
        self.look_at_the_clock = look_at_the_clock
        self.come_back = come_back
        self.closed = False
        self.waiting = 0
        """How many wait until the application lets go of a record."""
        self._freed = asyncio.Event()
        self.tell_free: Callable[[], None] = self._freed.set
        self.on_close: Callable[[], None] = lambda: None
        self.main = Hand(self)
        self.hands: list[Hand] = []
        self._works = False
        self._dismissed = 0

    @property
    def count(self) -> int:
        """How many records were handed out."""
        return self._dismissed + self.main.count + sum(hand.count for hand in self.hands)

    def readers(self) -> Iterator[Hand]:
        """Whoever may hold a record."""
        yield self.main
        yield from self.hands

    def open_hand(self, stream: Stream) -> Hand:
        """One more reader, of one stream."""
        hand = Hand(self, stream)
        self.hands.append(hand)
        return hand

    def dismiss(self, hand: Hand) -> None:
        """It reads no more. What it has in hand was not finished, and comes again for whoever reads next."""
        tenure = hand.in_hand
        if tenure is not None and not tenure.ended:
            with self.fetching.guard:
                tenure.go_back()
        hand.release()
        hand.let_go()
        self._dismissed += hand.count
        self.hands.remove(hand)
        for one in self.fetching.tenures():
            if one.holder is hand:
                one.holder = None
                self.fetching.look_again(one)

    def set_main_aside(self) -> None:
        """Handlers ask for records now: what `main` has in hand is finished, and what it held is theirs."""
        with self.fetching.guard:
            self.main.finish()
            self.main.put_down()

    @contextmanager
    def work(self) -> Iterator[None]:
        """Streams are read by hands of their own meanwhile, and nobody iterates."""
        self._works = True
        try:
            yield
        finally:
            self._works = False
            self.main.since = clock.now()

    @property
    def awaited(self) -> list[Hand]:
        """Who is expected to ask for records."""
        return self.hands if self._works else [self.main]

    def overdue(self, now: Instant, patience_ms: int) -> Iterator[Hand]:
        """Who has not asked for a record for so long."""
        for hand in self.awaited:
            if not hand.asked and now >= hand.since + patience_ms:
                yield hand

    def let_go(self, tenure: Tenure) -> None:
        """Nobody hands out what is ready of this one, until somebody finds it again who may have it."""
        with self.fetching.guard:
            for hand in self.readers():
                hand.let_go(tenure)
                if tenure.holder is hand and hand.in_hand is not tenure:
                    tenure.holder = None

    def holds(self, tenure: Tenure, besides: Hand) -> bool:
        """True if somebody else holds a record of this partition, maybe of an earlier tenure."""
        return any(
            hand is not besides and hand.in_hand is not None and hand.in_hand.of == tenure.of
            for hand in self.readers()
        )

    def close(self) -> None:
        """Hand out nothing more; whoever waits for a record gets None."""
        self.closed = True
        self.on_close()
        with self.fetching.guard:
            for hand in self.readers():
                hand.let_go()
        self.fetching.interrupt()

    async def wait_until_free(self, tenures: Iterable[Tenure], within_s: float) -> None:
        """Wait until the application holds no record of `tenures`, at most `within_s`."""
        waiting_for = {id(tenure) for tenure in tenures}
        self.waiting += 1
        try:
            async with asyncio.timeout(within_s):
                while any(id(hand.in_hand) in waiting_for for hand in self.readers()):
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            # Its record is consumed again by the next owner, which at-least-once allows.
            pass
        finally:
            self.waiting -= 1


the_hand: Final[ContextVar[Hand | None]] = ContextVar("the_hand", default=None)
"""Whose handler runs here; None: whoever iterates, or nobody who reads."""
