"""This room begins and ends what the member fetches, as its session says, and hands over in good order."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from muster.client import clock
from muster.client.committing import Committing
from muster.client.core.directives import Directive, Send
from muster.client.core.session import MemberSession
from muster.client.fetching import Fetching
from muster.client.listening import Listening
from muster.client.processing import Processing
from muster.client.tenure import UNKNOWN, Stream, Tenure
from muster.messages.partitions import Partition

logger = logging.getLogger("muster.client")

Begin = Callable[[Coroutine[Any, Any, None], str], None]


class Ownership:
    """The tenures of one member, from StartFetchers to EndFetchers.

    `begin` starts a task of the consumer, `obey` carries out what the session answers; `session` gives the
    present one. `streams_changed` is set when the member was told of a stream that it did not have.
    `has_failed`: what ends from now on is lost, and the listener hears that.
    """

    def __init__(
        self,
        session: Callable[[], MemberSession],
        fetching: Fetching,
        processing: Processing,
        committing: Committing,
        listening: Listening,
        begin: Begin,
        obey: Callable[[Iterable[Directive]], None],
    ) -> None:
        self.streams: set[Stream] = set()
        self.streams_changed = asyncio.Event()
        self.has_failed = False
        self._session = session
        self._fetching = fetching
        self._processing = processing
        self._committing = committing
        self._listening = listening
        self._begin = begin
        self._obey = obey
        # Sessions count their answers anew, and a listener may still hear of the one before.
        self._ending: dict[tuple[MemberSession, int], list[Tenure]] = {}
        self._paused: set[Partition] = set()
        self._count = 0
        self._dealt: Mapping[Partition, str] = {}

    # What the session says.

    def start(self, offsets: Mapping[Partition, int], kept: frozenset[Partition]) -> None:
        """Fetch these from now on; with a listener, after it knows."""
        begun = [self._tenure(one, offset, kept=one in kept) for one, offset in offsets.items()]
        for tenure in begun:
            tenure.held_back = self._listening.listens
            tenure.paused = tenure.of in self._paused and tenure.of in kept
            self._fetching.start(tenure)
        self._paused.difference_update(offsets)
        self.deal()
        if self._listening.listens:
            self._begin(self._tell_assigned(begun), "listener: assigned")

    def end(self, partitions: frozenset[Partition], answer: int | None) -> None:
        """End these; with `answer`, hand them over and tell the session when that is done."""
        ended = [self._fetching.stop((one.topic_id, one.number)) for one in partitions]
        tenures = [tenure for tenure in ended if tenure is not None]
        if answer is None:
            self._committing.lose(tenures)
            # A break that nobody else used takes no pause away; whether it was one is known at the start.
            self._paused.update(tenure.of for tenure in tenures if tenure.paused)
            if self._listening.listens:
                self._begin(self._listening.lost([one.place for one in tenures]), "listener: lost")
        else:
            session = self._session()
            self._ending[session, answer] = tenures
            self._begin(self._hand_over(tenures, session, answer), f"ending {answer}")

    def deal(self) -> None:
        """Who hands out what: the coordinator may have dealt the partitions to other streams."""
        session = self._session()
        if session.threads is self._dealt:
            return
        self._dealt = session.threads
        named = {wish.topic for wish in session.wishes.topic_count if not wish.is_pattern}
        for tenure in self._fetching.tenures():
            thread = session.threads.get(tenure.of, "")
            stream = Stream(tenure.topic if tenure.topic in named else "", thread)
            if tenure.stream != stream:
                tenure.stream = stream
                self._processing.let_go(tenure)
                self._fetching.look_again(tenure)
            if stream not in self.streams:
                self.streams.add(stream)
                self.streams_changed.set()

    def tell_positions(self) -> None:
        """The session knows how far the application is."""
        _tell_positions(self._session(), self._fetching.tenures())

    def forget_pauses(self) -> None:
        """All goes on, also what was paused before a break that is not over yet."""
        self._paused.clear()

    def held(self) -> Iterator[Tenure]:
        """Also those that are about to be handed over: the application may hold their last record."""
        return chain(self._fetching.tenures(), *self._ending.values())

    async def end_all(self) -> None:
        """The consumer is over, however it came: what still runs ends, and the listener hears of it."""
        tenures = list(self._fetching.tenures())
        for tenure in tenures:
            self._fetching.stop(tenure.key)
        places = [one.place for one in tenures]
        async with asyncio.timeout(self._a_third_s):
            await self._listening.lost(places)

    # How it is done.

    def _tenure(self, partition: Partition, offset: int, *, kept: bool) -> Tenure:
        generation = self._session().fetching[partition].generation
        tenure = self._committing.resume(partition, offset, generation, kept=kept)
        if tenure is None:
            self._count += 1
            where = partition.topic, partition.topic_id, partition.number
            tenure = Tenure(*where, generation, offset, self._count)
        return tenure

    async def _tell_assigned(self, tenures: list[Tenure]) -> None:
        await self._listening.assigned([one.place for one in tenures])
        for tenure in tenures:
            tenure.held_back = False
            if not tenure.ended:
                self._fetching.look_again(tenure)

    async def _hand_over(self, tenures: list[Tenure], session: MemberSession, answer: int) -> None:
        """A record that the application holds is waited for, so that nobody else consumes it meanwhile."""
        await self._processing.wait_until_free(tenures, self._a_third_s)
        if self._listening.listens:
            await self._tell_revoked(
                tenures, lambda: self.has_failed or (session, answer) not in self._ending
            )
        with self._fetching.guard:
            del self._ending[session, answer]
            _tell_positions(session, tenures)
            asked = session.fetchers_ended(answer, clock.now())
            told = session.wishes.auto_commit and any(isinstance(one, Send) for one in asked)
            self._committing.lose(one for one in tenures if not told or one.finished_to < one.delivered_to)
            self._obey(asked)

    async def _tell_revoked(self, tenures: list[Tenure], is_over: Callable[[], bool]) -> None:
        """The coordinator waits for two thirds of the session, the listener gets what is left of it."""
        places = [one.place for one in tenures]
        done = asyncio.Event()

        async def tell() -> None:
            try:
                await self._listening.revoked(places, is_over)
            finally:
                done.set()

        self._begin(tell(), "listener: revoked")
        try:
            async with asyncio.timeout(self._a_third_s * 3 / 4):
                await done.wait()
        except TimeoutError:
            logger.warning("on_revoked has not returned in time: %s go without it", places)

    @property
    def _a_third_s(self) -> float:
        return self._session().wishes.session_timeout_ms / 3000


def _tell_positions(session: MemberSession, tenures: Iterable[Tenure]) -> None:
    for tenure in tenures:
        if tenure.finished_to != UNKNOWN:
            session.advance(tenure.of, tenure.finished_to)
