"""This room hands records to the application one by one, and knows which of them it has finished.

The application finishes a record by asking for the next one. Before each record the member's own
deadline is looked at: a record of a partition that may be another's already is never handed out.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic

from muster.client.fetching import Fetching
from muster.client.record import Record
from muster.client.tenure import Tenure
from muster.kafkawire.records import ConsumedRecord

TURN_S = 0.01
"""An application that never waits gets the event loop for this long before pings are answered again."""


class Processing:
    """The stream of records; `may_fetch` is the session's word that its deadline has not passed."""

    def __init__(self, fetching: Fetching, may_fetch: Callable[[], bool]) -> None:
        self._fetching = fetching
        self._may_fetch = may_fetch
        self._tenure: Tenure | None = None
        self._records: deque[ConsumedRecord] = deque()
        self._in_hand: Tenure | None = None
        self._freed = asyncio.Event()
        self._freed.set()
        self._turn_began = 0.0
        self.closed = False
        self.asked = False
        """Whether the application waits for a record now."""

    def finish(self) -> None:
        """The application is done with the record that it holds, if it holds one."""
        if self._in_hand is not None:
            self._in_hand.finished_to = self._in_hand.delivered_to
            self._in_hand = None
        self._freed.set()

    def release(self) -> None:
        """The application goes away from the record that it holds, without having finished it."""
        self._in_hand = None
        self._freed.set()

    def close(self) -> None:
        """Hand out nothing more; whoever waits for a record gets None."""
        self.closed = True
        self._records.clear()
        self._fetching.interrupt()

    async def next_record(self) -> Record | None:
        """Finish the record in hand and wait for the next one; None once closed."""
        self.asked = True
        try:
            self.finish()
            await self._let_others_run()
            while not self.closed:
                if not self._records or self._tenure is None or self._tenure.ended:
                    self._records.clear()
                    batch = await self._fetching.next_batch()
                    if batch is not None:
                        self._tenure, self._records = batch[0], deque(batch[1])
                        self._turn_began = monotonic()
                    continue
                if self._may_fetch():
                    return self._hand_out(self._tenure, self._records.popleft())
                # The session has been told that its time is over; it ends the tenures before this goes on.
                await asyncio.sleep(0)
            return None
        finally:
            self.asked = False

    def _hand_out(self, tenure: Tenure, record: ConsumedRecord) -> Record:
        self._in_hand = tenure
        self._freed.clear()
        tenure.delivered_to = record.offset + 1
        place = tenure.topic, tenure.partition, record.offset, tenure.generation, tenure.number
        return Record(*place, *record[1:])

    async def _let_others_run(self) -> None:
        now = monotonic()
        if now - self._turn_began >= TURN_S:
            await asyncio.sleep(0)
            self._turn_began = monotonic()

    def skip(self, tenure: Tenure, offset: int) -> None:
        """Hand out nothing more of `tenure` below `offset`."""
        if tenure is self._tenure:
            self._records = deque(record for record in self._records if record.offset >= offset)

    async def wait_until_free(self, tenures: Iterable[Tenure], within_s: float) -> None:
        """Wait until the application holds no record of `tenures`, at most `within_s`."""
        waiting_for = {id(tenure) for tenure in tenures}
        try:
            async with asyncio.timeout(within_s):
                while self._in_hand is not None and id(self._in_hand) in waiting_for:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            # Its record is consumed again by the next owner, which at-least-once allows.
            pass
