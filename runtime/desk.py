"""This room sees to it that offered work gets done: by a worker or the spare process (design 2)."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import structlog

from muster.kernel.instants import Instant, elapsed_ms
from runtime import metrics
from runtime.ports import Connection, ConnectionLost, VersionConflict
from runtime.work_table import Offered, TurnConnection, WorkRow

UNCLAIMED_MS = 250
CLAIM_MS = 2_000
CLAIM_MOST_MS = 60_000
"""A claim stands for CLAIM_MS, twice as long after each one that was taken back, to this limit: what takes
long is computed by two for a while and not for ever, and who dies at the first try is noticed at once.
"""

REMIND_MS = 1_000
"""A done item that is not adopted is told of again."""

ASK_AGAIN_MS = 5_000
"""A due item is published again: its message may be lost, and the spare process may be stuck."""

Query = Callable[[Callable[[Connection], Any]], Coroutine[Any, Any, Any]]
log = structlog.get_logger(__name__)


class Asks(Protocol):
    """Somebody who is asked to do items by id, and may or may not."""

    def publish(self, item_id: str) -> Any:
        """Ask, and return at once."""


class WorkDesk:
    """The owner's eye on the work items of the lanes that this node holds.

    Everything is judged by this node's own clock; a row's times are for people (leases.md section 6).
    """

    def __init__(
        self,
        query: Query,
        workers: Asks,
        spare: Asks,
        clock: Callable[[], Instant],
        lanes: Callable[[], Iterable[str]],
        finished: Callable[[str, str, str], None],
    ) -> None:
        self._query = query
        self._workers = workers
        self._spare = spare
        self._clock = clock
        self._lanes = lanes
        self._finished = finished
        self._seen: dict[str, tuple[str, int, Instant]] = {}
        self._told_at: dict[str, Instant] = {}
        self._asked_at: dict[str, Instant] = {}
        self._looking: asyncio.Task[None] | None = None
        self._look_again = False
        self._timers: set[asyncio.TimerHandle] = set()

    def offered(self, items: Sequence[Offered]) -> None:
        """These items are durable: ask Celery first, and look whether somebody claims them."""
        now = self._clock()
        for item in items:
            self._seen[item.id] = ("due", 0, now)
            self._ask(item.id, now)
            metrics.work_items.labels("offered").inc()
        self._later(UNCLAIMED_MS + 5)
        self._later(CLAIM_MS + 5)

    def look(self) -> None:
        """Look at every open item now; once a second, and when something may have become late."""
        if self._looking is not None and not self._looking.done():
            self._look_again = True
            return
        self._looking = asyncio.create_task(self._look())

    def stop(self) -> None:
        """Look at nothing more."""
        for timer in self._timers:
            timer.cancel()
        if self._looking is not None:
            self._looking.cancel()

    def _later(self, delay_ms: int) -> None:
        def due() -> None:
            self._timers.discard(timer)
            self.look()

        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, due)
        self._timers.add(timer)

    async def _look(self) -> None:
        while True:
            self._look_again = False
            asked_at = self._clock()
            try:
                rows = await self._query(partial(_open_items, list(self._lanes())))
            except (ConnectionLost, VersionConflict):
                return
            await self._judge(rows, asked_at)
            if not self._look_again:
                return

    async def _judge(self, rows: Sequence[WorkRow], asked_at: Instant) -> None:
        now = self._clock()
        late: list[WorkRow] = []
        seen: dict[str, tuple[str, int, Instant]] = {}
        for row in rows:
            before = self._seen.get(row.id)
            same = before is not None and before[:2] == (row.state, row.claim_epoch)
            since = before[2] if before is not None and same else now
            seen[row.id] = (row.state, row.claim_epoch, since)
            if row.state == "done":
                self._tell(row, now)
            elif row.state == "due":
                self._press(row, now, since)
            elif elapsed_ms(since, now) >= claim_stands_ms(row.claim_epoch):
                late.append(row)
        for item_id, earlier in self._seen.items():
            if item_id not in seen and earlier[2] >= asked_at:
                # Offered while the query was under way.
                seen[item_id] = earlier
        self._seen = seen
        self._told_at = {item: at for item, at in self._told_at.items() if item in seen}
        self._asked_at = {item: at for item, at in self._asked_at.items() if item in seen}
        for row in late:
            await self._reclaim(row)

    def _press(self, row: WorkRow, now: Instant, since: Instant) -> None:
        """Nobody has claimed it: the workers are asked, after 250 ms the spare process does it."""
        asked_at = self._asked_at.get(row.id)
        if asked_at is None or elapsed_ms(asked_at, now) >= ASK_AGAIN_MS:
            self._ask(row.id, now)
            self._later(UNCLAIMED_MS + 5)
        if elapsed_ms(since, now) >= UNCLAIMED_MS:
            metrics.work_items.labels("spare").inc()
            self._spare.publish(row.id)

    def _ask(self, item_id: str, now: Instant) -> None:
        self._asked_at[item_id] = now
        self._workers.publish(item_id)

    def _tell(self, row: WorkRow, now: Instant) -> None:
        told_at = self._told_at.get(row.id)
        if told_at is None or elapsed_ms(told_at, now) >= REMIND_MS:
            self._told_at[row.id] = now
            self._finished(row.lane, row.kind, row.key)

    async def _reclaim(self, row: WorkRow) -> None:
        try:
            taken = await self._query(
                lambda connection: connection.work_table.reclaim(row.id, row.claim_epoch)
            )
        except (ConnectionLost, VersionConflict):
            return
        if taken:
            log.warning("claim taken back", item=row.id, kind=row.kind, key=row.key, claim=row.claim_epoch)
            metrics.work_items.labels("reclaimed").inc()
            now = self._clock()
            self._seen[row.id] = ("due", row.claim_epoch, now)
            self._ask(row.id, now)
            self._later(UNCLAIMED_MS + 5)


def claim_stands_ms(claim_epoch: int) -> int:
    """For how long nobody takes this claim back; `claim_epoch` 1 is the item's first."""
    return min(CLAIM_MS << min(claim_epoch - 1, 16), CLAIM_MOST_MS)


def _open_items(lanes: Sequence[str], connection: TurnConnection) -> list[WorkRow]:
    return connection.work_table.open_items(lanes)
