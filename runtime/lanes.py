"""This room holds the lanes of a node: for each lease a queue, over five connections (design chapter 4.1)."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import structlog

from muster.kernel.instants import Instant, after
from runtime import metrics
from runtime.batches import Seat
from runtime.database import Database, Held, Link
from runtime.freshness import STALLED_LOOK_MS, Freshness
from runtime.news import News
from runtime.ports import (
    CONTROLLER_LANE,
    BatchSource,
    ConnectionLost,
    LaneLost,
    SharingSubject,
    Subject,
    VersionConflict,
)
from runtime.queued import Line, Place, Queued
from runtime.refusals import OnRefused, Refused, kind_of, tell_nobody
from runtime.rests import FIRST_MS, Rests
from runtime.streams import Stream
from runtime.suspects import Suspects
from runtime.taking import Takes
from runtime.threads import OneThread, Threads
from runtime.turn import NotLoaded, is_guilt, take_together, take_turn
from runtime.work_table import Offered

STREAMS = 4
"""64 connections cost 85 MB, and two nodes pass max_connections; four carry the same load. The controller's
lane has one more for itself: while ten thousand leaders are written, no member's commit waits behind them.
"""

ALONE_TRIES_MAX = 2
"""So often what fails without events is given up before they are looked at: the controller first gives up
moves, then the sessions that it remembers.
"""

Result = TypeVar("Result")
log = structlog.get_logger(__name__)


class HeldLane:
    """The queue of one lease that this node holds (ports.Lane, turn.TurnLane)."""

    def __init__(
        self, stream: Stream, name: str, epoch: int, seq: int, lanes: "Lanes", on_lost: Callable[[], None]
    ) -> None:
        self.name = name
        self.seq = seq
        self._stream = stream
        self._lanes = lanes
        self._seat = Seat(name, epoch, self._forget)
        self._on_lost = on_lost
        self._closed = False
        self._line = Line(self._submit)
        self._timers: dict[Place, asyncio.TimerHandle] = {}
        self._suspected: set[Place] = set()
        self._rests = Rests()
        self._unread: dict[Place, tuple[Instant, NotLoaded]] = {}
        """What could not be read a moment ago, and until when nobody has it read anew."""
        self._news = News()
        """Whoever is hung up on comes again at once."""
        self._stood_still_ms = 0
        self._last_now = lanes.clock()

    # --- for services (ports.Lane) --------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The lease's epoch (Lane.epoch)."""
        return self._seat.epoch

    @property
    def frozen(self) -> bool:
        """Whether nothing may be answered (Lane.frozen)."""
        return self._lanes.freshness.frozen

    @property
    def is_lost(self) -> bool:
        """Whether the lease is gone."""
        return self._seat.is_lost

    def hand_in(self, subject: Subject[Any, Any], key: str, *events: Any) -> None:
        """Queue events for the next turn of `key` (Lane.hand_in)."""
        self._open()
        self._line.at(subject, key).events.extend(events)

    def hand_in_sharing(self, subject: SharingSubject[Any, Any], key: str, *events: Any) -> None:
        """Queue events for a turn beside those of other keys (Lane.hand_in_sharing)."""
        self._open()
        self._line.at(subject, key, subject).events.extend(events)

    async def submit_turn(self, subject: Subject[Any, Any], key: str, *events: Any) -> None:
        """Hand in and wait until it was spoken (Lane.submit_turn)."""
        self._open()
        spoken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._line.at(subject, key)
        waiting.events.extend(events)
        waiting.spoken.append((len(waiting.events), spoken))
        await spoken

    def offer_batch(self, source: BatchSource) -> None:
        """Say that `source` has commits (Lane.offer_batch)."""
        self._open()
        self._stream.offer(self._seat, source)

    async def submit_batch(self, source: BatchSource) -> None:
        """Offer and wait until it was answered (Lane.submit_batch)."""
        self._open()
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stream.offer(self._seat, source, answered)
        await answered

    async def read(self, function: Callable[[Any], Result]) -> Result:
        """Run `function` in a read that proves the lease (Lane.read)."""
        self._open()
        result: Result = await self._stream.read(self._seat, function)
        return result

    async def prove(self) -> None:
        """Prove the lease beside all others that wait for it (Lane.prove)."""
        self._open()
        await self._stream.read(self._seat, None)

    def now(self) -> Instant:
        """The lane's own time, which stands still after a postponement rather than go back (Lane.now).

        Who wakes up from a stop and asks first must not see time that will be given back in a moment:
        that could not go back any more, and sessions would end for it.
        """
        shown = self._lanes.clock()
        return self._last_now if self._lanes.freshness.resting_at(shown) else self._now_at(shown)

    def answering_now(self) -> Instant | None:
        """Both at once (Lane.answering_now)."""
        shown, freshness = self._lanes.clock(), self._lanes.freshness
        if shown < freshness.steady_until:
            # As below, without a call: each heartbeat of a Kafka client asks.
            now = Instant(shown - self._stood_still_ms)
            if now > self._last_now:
                self._last_now = now
            return self._last_now
        if freshness.frozen_at(shown):
            return None
        return self._last_now if freshness.stalled_at(shown) else self._now_at(shown)

    def _now_at(self, shown: Instant) -> Instant:
        now = shown - self._stood_still_ms
        if now > self._last_now:
            self._last_now = Instant(now)
        return self._last_now

    def postpone(self, late_ms: int) -> None:
        """Put off all that time will ask for (Lane.postpone)."""
        self._stood_still_ms += late_ms

    # --- for turns (turn.TurnLane) --------------------------------------------------------------------------

    @property
    def node(self) -> str:
        """This node's name, for the journal."""
        return self._lanes.node

    async def thawed(self) -> None:
        """Return when the node may answer (TurnLane.thawed)."""
        await self._lanes.freshness.wait()
        if self.is_lost:
            raise LaneLost(self.name)

    async def in_thread(self, function: Callable[[Link], Result]) -> Result:
        """Run `function` on the connection (TurnLane.in_thread)."""
        return await self._stream.in_thread(function)

    async def take_again(self) -> None:
        """Take the lease from oneself (TurnLane.take_again)."""
        await self._stream.retake([self._seat])
        if self.is_lost:
            raise LaneLost(self.name)

    def lost(self) -> None:
        """The lease is not ours any more (TurnLane.lost)."""
        self._seat.lose()

    def look_again(self, subject: Subject[Any, Any], key: str, at: Instant | None) -> None:
        """Ask again at that instant (TurnLane.look_again)."""
        place = (id(subject), key)
        earlier = self._timers.pop(place, None)
        if earlier is not None:
            earlier.cancel()
        if at is None or self._closed or self.is_lost:
            return
        # At least a millisecond, so that an instant that is always past cannot keep the loop to itself.
        delay_s = max(at - self.now(), 1) / 1000
        self._timers[place] = asyncio.get_running_loop().call_later(delay_s, self._due, subject, key, at)

    def offered(self, items: Sequence[Offered]) -> None:
        """Work items are durable: have them done (TurnLane.offered)."""
        if items:
            self._lanes.on_offered(items)

    # --- life -----------------------------------------------------------------------------------------------

    async def resign(self) -> bool:
        """After all that was queued: leave the lease to nobody. False: it was lost, or the answer was."""
        if self._closed or self.is_lost:
            return False
        self._closed = True
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        async def job() -> None:
            if self._line and not self.is_lost:
                # What came to nothing beside others, or was too much for one turn, has its own behind this.
                self._stream.submit(job, partial(_set, done, False))
                return
            resigned = False
            try:
                resigned = await self._resign()
            finally:
                _set(done, resigned)

        self._stream.submit(job, partial(_set, done, False))
        resigned = await done
        self._seat.is_lost = True
        self._forget_waiting()
        return resigned

    def abandon(self) -> None:
        """Our run has ended: forget everything, without asking anybody."""
        self._seat.is_lost = True
        self._forget_waiting()

    # --- inside ---------------------------------------------------------------------------------------------

    async def _resign(self, tries: int = 2) -> bool:
        """Once more over a new connection, if nobody had noticed that this one broke. If neither arrived,
        nothing is written any more for all that, and whoever looks finds the row free or ours.
        """
        held = Held(self.name, self.epoch)
        try:
            return not self.is_lost and await self.in_thread(lambda link: link.resign(held))
        except (ConnectionLost, VersionConflict):
            return tries > 1 and await self._resign(tries - 1)

    def _open(self) -> None:
        if self._closed or self._seat.is_lost or self._stream.stopped:
            raise LaneLost(self.name)

    def _submit(self, place: Place) -> None:
        self._stream.submit(partial(self._turn, place), partial(self._drop, place))

    def _due(self, subject: Subject[Any, Any], key: str, at: Instant) -> None:
        place, freshness = (id(subject), key), self._lanes.freshness
        if self._closed or self.is_lost or self._stream.stopped:
            # There is nobody to be told, and nobody who may decide.
            self._timers.pop(place, None)
            return
        is_frozen = freshness.frozen
        if freshness.stalled and not is_frozen:
            # The tick that gives the time of a stop back is next; thousands may be due before it.
            loop = asyncio.get_running_loop()
            self._timers[place] = loop.call_later(STALLED_LOOK_MS / 1000, self._due, subject, key, at)
            return
        if not is_frozen and self.now() < at:
            # Time stood still meanwhile. While it does, the turn that waits for its end asks again.
            due = subject.postponed(key, at)
            if due is None or self.now() < due:
                self.look_again(subject, key, due)
                return
        self._timers.pop(place, None)
        again = None if is_frozen else subject.beat(key, self.now())
        if again is None:
            self.hand_in(subject, key)
        else:
            self.look_again(subject, key, again)

    async def _turn(self, place: Place) -> None:
        """Take a turn of what waits for one key; whatever goes wrong ends here."""
        # What waits is taken only now, so that one turn decides all that came while time stood still.
        await self._lanes.freshness.wait()
        waiting = None if place in self._suspected else self._line.take(place)
        if waiting is None:
            return
        if (subject := waiting.sharing) is not None:
            others = self._line.take_others(subject, waiting.key, self._suspected)
            if others:
                await self._share(subject, [waiting, *others])
                return
        suspects: Suspects | None = None
        with waiting.telling(LaneLost(self.name)):
            suspects = await self._take_turns(waiting.subject, waiting.key, waiting.events)
        self._go_on(place, waiting, suspects)

    async def _share(self, subject: SharingSubject[Any, Any], turns: Sequence[Queued]) -> None:
        """One transaction for turns of several keys, of which nobody waits to be told."""
        try:
            over = await take_together(self, subject, {one.key: one.events for one in turns})
        except LaneLost:
            # As a turn of one key: nothing waits here any more, and whoever gives the lane up tells it.
            return
        for one in turns:
            place = (id(subject), one.key)
            if one.key not in over:
                self._line.put_back(place, one)
            elif (error := over[one.key]) is None:
                self._went_well(place)
            else:
                # If not even this can be said, the others are told what became of theirs for all that.
                with one.telling(LaneLost(self.name)):
                    self._refuse(subject, one.key, one.events, error)

    def _go_on(self, place: Place, waiting: Queued, suspects: Suspects | None) -> None:
        """Each turn of a search is a job of its own: others of the connection have theirs in between."""
        if suspects is not None and not suspects.is_over:
            self._suspected.add(place)
            job = partial(self._try_some, place, waiting, suspects)
            self._stream.submit(job, partial(waiting.tell, LaneLost(self.name)))
            return
        waiting.tell()
        if place in self._suspected:
            self._suspected.discard(place)
            if place in self._line:
                # It came while what was before it was looked through.
                self._submit(place)

    async def _try_some(self, place: Place, waiting: Queued, suspects: Suspects) -> None:
        await self._lanes.freshness.wait()
        going_on: Suspects | None = None
        with waiting.telling(LaneLost(self.name)):
            left, error = await self._tried(waiting.subject, waiting.key, suspects.take())
            if error is not None:
                suspects.failed(left, error)
            going_on = suspects
        self._go_on(place, waiting, going_on)

    async def _take_turns(
        self, subject: Subject[Any, Any], key: str, events: Sequence[Any]
    ) -> Suspects | None:
        """One turn for all events, or several of so many as one transaction bears; if our own mistake spoils
        one, what is guilty is to be found and refused, so that the others are decided.
        """
        unread = self._unread.get((id(subject), key))
        if unread is not None and events and self._lanes.clock() < unread[0]:
            # Whoever is hung up on comes again at once, and each reading may be of a whole cluster.
            return Suspects(events, unread[1], partial(self._refuse, subject, key))
        left, error = await self._tried(subject, key, events)
        if error is None:
            return None
        if isinstance(error, NotLoaded):
            self._unread[id(subject), key] = (after(self._lanes.clock(), FIRST_MS), NotLoaded(*error.args))
        if left and is_guilt(error):
            if len(left) > 1:
                log.warning("turn failed; what is guilty is looked for", lane=self.name, key=key)
            for _ in range(ALONE_TRIES_MAX):
                # Each turn also decides what the one before left to it, and what time asks for.
                _, without = await self._tried(subject, key, ())
                if without is None:
                    break
                self._refuse(subject, key, (), without)
                left, error = await self._tried(subject, key, left)
                if error is None or not is_guilt(error):
                    break
        return None if error is None else Suspects(left, error, partial(self._refuse, subject, key))

    async def _tried(
        self, subject: Subject[Any, Any], key: str, events: Sequence[Any]
    ) -> tuple[Sequence[Any], Exception | None]:
        """What is left of the events when a turn failed, and why. Raises LaneLost."""
        most = len(events)
        try:
            while True:
                # Once a transaction was too long, no later one is longer than the one that was not.
                most = await take_turn(self, subject, key, events[:most])
                events = events[most:]
                if not events:
                    self._went_well((id(subject), key))
                    return events, None
        except LaneLost:
            raise
        except Exception as error:
            return events, error

    def _went_well(self, place: Place) -> None:
        self._rests.went_well(place)
        self._unread.pop(place, None)

    def _refuse(self, subject: Subject[Any, Any], key: str, events: Sequence[Any], error: Exception) -> None:
        kinds = tuple(kind_of(event) for event in events)
        metrics.events_refused.labels(self.name.partition("/")[0]).inc(max(len(events), 1))
        self._lanes.on_refused(Refused(self.name, key, kinds, error))
        if self._news.is_news((key, type(error).__name__), self._lanes.clock()):
            log.error("turn failed", lane=self.name, key=key, events=kinds, exc_info=error)
        subject.refuse(key, events, error)
        # What time asked for may have been lost with these events; events that fail, however often,
        # must not put off what is asked for later.
        place = (id(subject), key)
        if not events:
            self.look_again(subject, key, after(self.now(), self._rests.after(place, error)))
        elif place not in self._timers:
            self.look_again(subject, key, after(self.now(), FIRST_MS))

    def _drop(self, place: Place) -> None:
        """The connection stopped before this turn began."""
        waiting = self._line.drop(place)
        if waiting is not None:
            waiting.tell(LaneLost(self.name))

    def _forget(self) -> None:
        """The seat was lost: nothing waits any more; the keeper tells the service."""
        self._forget_waiting()
        self._on_lost()

    def _forget_waiting(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._line.tell_all(LaneLost(self.name))
        self._suspected.clear()
        self._rests.forget()
        self._unread.clear()


class Lanes:
    """All lanes that one run of a node holds, over its lane connections."""

    def __init__(
        self,
        database: Database,
        node: str,
        run: str,
        freshness: Freshness,
        clock: Callable[[], Instant],
        on_offered: Callable[[Sequence[Offered]], None],
        threads: Threads = OneThread,
        streams: int = STREAMS,
        on_refused: OnRefused = tell_nobody,
    ) -> None:
        self.node = node
        self.run = run
        self.freshness = freshness
        self.clock = clock
        self.on_offered = on_offered
        self.on_refused = on_refused
        self._streams = [
            Stream(database, run, f"lanes-{number}", freshness, clock, threads) for number in range(streams)
        ]
        self._of_controller = Stream(database, run, "lanes-controller", freshness, clock, threads)
        self._takes = {stream: Takes(stream, run, clock) for stream in self._all()}

    def start(self) -> None:
        """Begin to work."""
        for stream in self._all():
            stream.start()

    async def stop(self) -> None:
        """End every connection; what is under way is resolved by whoever takes the lease."""
        await asyncio.gather(*(stream.stop() for stream in self._all()))

    @property
    def stuck_ms(self) -> int:
        """For how long the slowest connection has been waiting for the database; 0 if none waits."""
        return max(stream.stuck_ms for stream in self._all())

    @property
    def unlinked_ms(self) -> int:
        """For how long somebody has been waiting for a connection to be made."""
        return max(stream.unlinked_ms for stream in self._all())

    def stood_still(self, late_ms: int) -> None:
        """The loop did: what the database said meanwhile was not heard, and is no waiting for it."""
        for stream in self._all():
            stream.stood_still(late_ms)

    def _all(self) -> Sequence[Stream]:
        return (*self._streams, self._of_controller)

    async def take(
        self, name: str, index: int, seen_epoch: int, old_run: str | None, on_lost: Callable[[], None]
    ) -> HeldLane | None:
        """Take a lease that was seen free, or ours, under `seen_epoch`; lane `index` uses index mod 4, the
        controller's a connection of its own.

        None: somebody else was faster, or the outcome is unknown: look at the row again.
        """
        of_shard = self._streams[index % len(self._streams)]
        stream = self._of_controller if name == CONTROLLER_LANE else of_shard
        seq = await self._takes[stream].take(name, seen_epoch, old_run)
        return None if seq is None else HeldLane(stream, name, seen_epoch + 1, seq, self, on_lost)


def _set(future: "asyncio.Future[Result]", result: Result) -> None:
    if not future.done():
        future.set_result(result)
