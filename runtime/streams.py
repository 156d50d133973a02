"""This room drives one lane connection: what its lanes want, one transaction after the other, in a thread."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import structlog

from muster.kernel.instants import Instant, after
from runtime import metrics
from runtime.batches import Part, Seat, batches, fail, kept
from runtime.database import Backend, Database, Fenced, Link
from runtime.freshness import Freshness
from runtime.news import News
from runtime.ports import BatchSource, ConnectionLost, LaneLost, VersionConflict, is_unable
from runtime.threads import OneThread, Threads

RECONNECT_S = 0.1
TRIES_A_LINE = 300
"""An outage is said once, then every half minute."""

BATCH_ATTEMPTS = 5
BATCH_ROWS_MAX = 10_000
"""A tenth of what the server ends a transaction for; after each one that was lost, a quarter of it."""

GUILTY_TRIES_MAX = 64
"""Enough for three bad groups among a thousand; a batch that needs more holds up nobody any longer."""

JOBS_SLICE_MS = 2
"""Turns that need no connection follow each other for so long, then the loop is for the others."""

GATHER_SLICE_MS = 4
"""After that the loop is for others, before the commits of the next lane are judged."""

READS_SLICE_MS = 50
"""Reads that wait together share their proof, for so long: who takes over loads thousands of groups."""

LINGER_S = 0.001
"""Who shared the last batch comes back shortly after the others: if the first did not wait a moment it would
have a batch of its own, for which all others would wait. Nor do those who came meanwhile begin at once: two
crowds would take turns for ever, each half as large, and a batch costs more than a hundred of its rows.
"""

Result = TypeVar("Result")
log = structlog.get_logger(__name__)


class Stream:
    """One connection with its thread; its lanes' turns, batches and reads never overlap.

    Takes turns fairly: a batch of all lanes, all reads that wait, one turn that writes, and again.
    """

    def __init__(
        self,
        database: Database,
        run: str,
        name: str,
        freshness: Freshness,
        clock: Callable[[], Instant],
        threads: Threads = OneThread,
    ) -> None:
        self._database = database
        self._run = run
        self._name = name
        self._freshness = freshness
        self._clock = clock
        self._thread = threads(name)
        self._link: Link | None = None
        self._old_backend: Backend | None = None
        self._work = asyncio.Event()
        self._jobs: deque[tuple[Callable[[], Awaitable[None]], Callable[[], None]]] = deque()
        self.stopped = False
        self._crowded = False
        self._tries_left = GUILTY_TRIES_MAX
        self._calls = 0
        self._failed_connects = 0
        self._news = News()
        self._reads: list[tuple[Seat, Callable[[Any], Any] | None, asyncio.Future[Any]]] = []
        self._parts: dict[tuple[str, int], Part] = {}
        self._task: asyncio.Task[None] | None = None
        self._busy_since: Instant | None = None
        self._blocked_since: Instant | None = None
        self._unlinked_since: Instant | None = None

    # --- for lanes ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to work."""
        self._task = asyncio.create_task(self._drive(), name=self._name)

    async def stop(self) -> None:
        """End: what is under way has an unknown outcome, which the next owner's take resolves."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        link = self._link
        if link is not None:
            link.shut()
            self._thread.run(link.close)
        self._thread.stop()
        self.stopped = True
        jobs, self._jobs = self._jobs, deque()
        for _, dropped in jobs:
            dropped()
        for _, _, future in self._reads:
            fail(future, LaneLost(self._name))
        for part in self._parts.values():
            part.refused(LaneLost(self._name))

    def submit(self, job: Callable[[], Awaitable[None]], dropped: Callable[[], None]) -> None:
        """Queue what needs the connection to itself (a turn, a take); `dropped` if it never will have it."""
        if self.stopped:
            dropped()
            return
        self._jobs.append((job, dropped))
        self._work.set()

    def read(self, seat: Seat, function: Callable[[Any], Any] | None) -> "asyncio.Future[Any]":
        """Queue a read that proves the lease after it; without a function only the lease is looked at."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._reads.append((seat, function, future))
        self._work.set()
        return future

    def offer(self, seat: Seat, source: BatchSource, waiting: "asyncio.Future[None] | None" = None) -> None:
        """Ask this source when the next batch begins."""
        part = self._parts.setdefault((seat.name, id(source)), Part(seat, source))
        if waiting is not None:
            part.waiting.append(waiting)
        self._work.set()

    async def in_thread(self, function: Callable[[Link], Result]) -> Result:
        """Run `function` on the connection; only within a job. Raises ConnectionLost."""
        self._calls += 1
        link = await self._connected()
        self._busy_since = self._clock()
        try:
            return await self._thread.run(lambda: function(link))
        except ConnectionLost:
            self._drop(link)
            raise
        finally:
            self._busy_since = None

    @property
    def stuck_ms(self) -> int:
        """For how long the present call, or the present retake, has been waiting for the database, over a
        connection that there is.
        """
        if self._unlinked_since is not None:
            return 0
        now = self._clock()
        return max((now - since for since in (self._busy_since, self._blocked_since) if since), default=0)

    @property
    def unlinked_ms(self) -> int:
        """For how long somebody has been waiting for a connection; each attempt ends (Postgres.connect)."""
        return 0 if self._unlinked_since is None else self._clock() - self._unlinked_since

    def stood_still(self, late_ms: int) -> None:
        """The loop did, for so long: what a call has waited meanwhile counts for nothing."""
        now = self._clock()
        self._busy_since, self._blocked_since, self._unlinked_since = (
            since and min(after(since, late_ms), now)
            for since in (self._busy_since, self._blocked_since, self._unlinked_since)
        )

    async def retake(self, seats: Sequence[Seat]) -> None:
        """Take these leases from ourselves (leases.md section 4): waits for what is in flight under the old
        epoch, and shuts out what still lies in a buffer. Seats that turn out not to be ours are lost.
        """
        if self._link is not None:
            # The connection that carried the lost transaction must not carry anything else.
            self._link.shut()
            self._drop(self._link)
        self._blocked_since = self._clock()
        try:
            for seat in sorted(seats, key=lambda seat: seat.name):
                await self._retake_one(seat)
        finally:
            self._blocked_since = None

    # --- inside ---------------------------------------------------------------------------------------------

    async def _retake_one(self, seat: Seat) -> None:
        """Until it is certain: as long as the outcome is unknown this lane may write nothing else."""
        while not seat.is_lost:
            await self._freshness.wait()
            try:
                taken = await self.in_thread(partial(self._take_again, seat=seat))
            except ConnectionLost:
                continue
            except Exception:
                log.exception("a lease could not be taken again", lane=seat.name)
                await asyncio.sleep(RECONNECT_S)
                continue
            if taken is None:
                seat.lose()
            else:
                seat.epoch = taken
                metrics.takeovers.labels("unknown outcome").inc()
                return

    def _take_again(self, link: Link, seat: Seat) -> int | None:
        if self._old_backend is not None:
            link.terminate(self._old_backend)
        epoch = seat.epoch
        while not link.take(seat.name, epoch, self._run):
            # An earlier try may have been committed with its answer lost: then the row names our run.
            run, epoch = link.epochs([seat.name]).get(seat.name, (None, epoch))
            if run != self._run:
                return None
        return epoch + 1

    async def _connected(self) -> Link:
        if self._link is None:
            self._unlinked_since = self._clock()
            try:
                self._link = await self._connect()
            finally:
                self._unlinked_since = None
            # What was waited for was a connection.
            self._blocked_since = self._blocked_since and self._clock()
        return self._link

    async def _connect(self) -> Link:
        while True:
            try:
                link = await self._thread.run(lambda: self._database.connect(self._run, self._name))
            except ConnectionLost as error:
                if self._failed_connects % TRIES_A_LINE == 0:
                    tries = self._failed_connects
                    log.warning("lane connection failed", stream=self._name, error=str(error), tries=tries)
                self._failed_connects += 1
                await asyncio.sleep(RECONNECT_S)
            else:
                self._failed_connects = 0
                return link

    def _drop(self, link: Link) -> None:
        self._old_backend = link.backend
        self._link = None
        self._thread.run(link.close)

    async def _drive(self) -> None:
        while True:
            if not (self._jobs or self._reads or self._parts):
                self._work.clear()
                await self._work.wait()
            if self._crowded and not (self._jobs or self._reads):
                await asyncio.sleep(LINGER_S)
            await self._freshness.wait()
            try:
                if self._parts:
                    await self._run_batch()
                if self._reads:
                    await self._run_reads()
                await self._run_jobs()
            except Exception:
                # A mistake of ours: whoever waits has been told; the other lanes must go on.
                log.exception("stream failed", stream=self._name)

    async def _run_jobs(self) -> None:
        """One job that needs the connection; those that turn out not to need it hold nobody up."""
        calls, began = self._calls, self._clock()
        while self._jobs and self._calls == calls:
            if self._clock() - began >= JOBS_SLICE_MS:
                await asyncio.sleep(0)
                return
            job, _ = self._jobs.popleft()
            await job()

    async def _run_reads(self) -> None:
        reads, self._reads = self._reads, []

        def all_of_them(link: Link) -> tuple[list[Any], Mapping[str, tuple[str | None, int]]]:
            results: list[Any] = []
            began = self._clock()
            for _, function, _ in reads:
                if results and self._clock() - began >= READS_SLICE_MS:
                    break
                try:
                    results.append(None if function is None else link.call(function))
                except ConnectionLost:
                    raise
                except Exception as error:
                    results.append(error)
            # Sent after every request came: it shows whether anybody else may have written before.
            return results, link.epochs(sorted({seat.name for seat, _, _ in reads}))

        try:
            results, epochs = await self.in_thread(all_of_them)
        except ConnectionLost:
            self._reads = reads + self._reads
            return
        except asyncio.CancelledError:
            # `stop` tells them.
            self._reads = reads + self._reads
            raise
        except Exception as error:
            for _, _, future in reads:
                fail(future, error)
            return
        # Those that were not run are the first of the next ones.
        self._reads = reads[len(results) :] + self._reads
        for (seat, _, future), result in zip(reads, results, strict=False):
            if epochs.get(seat.name, (None, -1))[1] != seat.epoch:
                seat.lose()
                fail(future, LaneLost(seat.name))
            elif isinstance(result, Exception):
                fail(future, result)
            elif not future.done():
                future.set_result(result)

    async def _run_batch(self) -> None:
        """One portion after the other, until all is written that waited when the batch began: a turn that
        finds somebody silent, or gives the lease away, comes behind all that was said before it.
        """
        parts, self._parts = list(self._parts.values()), {}
        try:
            while parts:
                parts = await self._run_portion(parts)
                if parts:
                    # If all was refused nothing was written, and nobody else has had a turn.
                    await asyncio.sleep(0)
                    await self._freshness.wait()
        except asyncio.CancelledError:
            # Written or not: only the next owner will know.
            for part in parts:
                part.tell(LaneLost(self._name))
            raise

    async def _run_portion(self, parts: list[Part]) -> list[Part]:
        """Gather and write about as much as one transaction bears; returns the parts of which more waits."""
        full: list[Part] = []
        more: list[Part] = []
        rows, began, not_asked = 0, self._clock(), list[Part]()
        for place, part in enumerate(parts):
            if rows >= BATCH_ROWS_MAX:
                not_asked = parts[place:]
                break
            if self._clock() - began >= GATHER_SLICE_MS:
                await asyncio.sleep(0)
                began = self._clock()
            if part.gather():
                full.append(part)
                rows += len(part.rows)
            if part.has_more:
                more.append(part)
        if full:
            started, self._tries_left = self._clock(), GUILTY_TRIES_MAX
            await self._write_batch(full)
            metrics.batch_ms.observe(self._clock() - started)
        # Whoever has much does not come again before all others.
        return not_asked + more

    async def _write_batch(self, parts: list[Part]) -> None:
        """Write all parts, in one transaction if it need not be a long one; parts whose lane is lost, or
        that spoil it, are found.
        """
        most_rows = BATCH_ROWS_MAX
        for _ in range(BATCH_ATTEMPTS):
            try:
                # If a later one fails the earlier ones are written again, which changes nothing: no other
                # rows of these lanes come between.
                for batch in batches(parts, most_rows):
                    await self.in_thread(batch)
            except Fenced:
                parts = await self._without_lost(parts)
            except ConnectionLost:
                metrics.unknown_outcomes.inc()
                # Nothing else was written meanwhile and the old batch cannot come any more: writing the same
                # rows again under the new epoch is harmless. If it was ended for its length, it is shorter.
                await self.retake([part.seat for part in parts])
                parts = kept(parts)
                most_rows = max(most_rows // 4, 1)
            except VersionConflict as conflict:
                log.info("batch conflicted", stream=self._name, text=str(conflict))
            except Exception as error:
                await self._find_guilty(parts, error)
                return
            else:
                rows = sum(len(part.rows) for part in parts)
                metrics.batch_rows.observe(rows)
                self._crowded = rows > 1
                for part in parts:
                    part.committed()
                return
            if not parts:
                return
        for part in parts:
            part.refused(VersionConflict("a batch of commits could not be written"))

    async def _find_guilty(self, parts: list[Part], error: Exception) -> None:
        """These fail together: each lane is written by itself, and of one that fails each half of its groups,
        until what fails is one group's.
        """
        pieces = parts if len(parts) > 1 else parts[0].halves()
        if is_unable(error) or not pieces or self._tries_left <= 0:
            for part in parts:
                name = part.seat.name
                # What PostgreSQL does for nobody is the same news for all lanes.
                what = (type(error).__name__, "" if is_unable(error) else name)
                if self._news.is_news(what, self._clock()):
                    log.error("a batch was refused", lane=name, rows=len(part.rows), error=repr(error))
                part.refused(error)
            return
        self._tries_left -= len(pieces)
        for piece in pieces:
            await self._write_batch([piece])
        if len(parts) == 1:
            parts[0].was_told_by(pieces)

    async def _without_lost(self, parts: list[Part]) -> list[Part]:
        names = [part.seat.name for part in parts]
        try:
            epochs = await self.in_thread(lambda link: link.epochs(names))
        except ConnectionLost:
            return parts
        for part in parts:
            if epochs.get(part.seat.name, (None, -1))[1] != part.seat.epoch:
                part.seat.lose()
        return kept(parts)
