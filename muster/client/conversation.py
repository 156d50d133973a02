"""This room keeps a consumer's session alive: it carries frames, obeys the session, knows how it stands."""

import asyncio
import logging
import random
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from muster.client import clock
from muster.client.committing import Committing, Question
from muster.client.core.directives import (
    CommitAnswered,
    CommitLost,
    Directive,
    Disconnect,
    EndFetchers,
    Left,
    Rediscover,
    Refused,
    Send,
    StandBy,
    StartFetchers,
)
from muster.client.core.session import MemberSession, Stage
from muster.client.core.wishes import Wishes
from muster.client.discovery import Discovery
from muster.client.errors import ConsumerError, ConsumerRefused, NotReady
from muster.client.fetching import Fetching, FetchOptions
from muster.client.listening import Listening, RebalanceListener
from muster.client.metrics import Metrics
from muster.client.ownership import Ownership
from muster.client.processing import Processing, the_hand
from muster.client.record import Offsets, TopicPartition
from muster.client.standby import Standby
from muster.client.standing import Standing, State
from muster.client.telling import Telling
from muster.client.tenure import UNKNOWN, Tenure
from muster.client.transport import NodeUnreachable, Transport
from muster.kernel.instants import Instant, after, elapsed_ms
from muster.messages.errors import RemoteMessageError
from muster.messages.member import (
    BrokerInfo,
    ClusterMetadataRequest,
    ClusterMetadataResponse,
    FromMember,
    RegisterConsumerResponse,
    StartFetcherRequest,
)

logger = logging.getLogger("muster.client")

FIRST_BACKOFF_S: Final = 0.05
LAST_BACKOFF_S: Final = 0.5
SHORT_LIFE_MS: Final = 1_000
LOOK_UP_EVERY_S: Final = 0.25


@dataclass(slots=True)
class _Link:
    """The one connection to the coordinator, what waits to be written to it, and when it was last heard."""

    transport: Transport
    heard_at: Instant
    outbox: "asyncio.Queue[FromMember]" = field(default_factory=asyncio.Queue)


@dataclass(frozen=True, slots=True)
class Patience:
    """For how many milliseconds a consumer bears something; 0: without end.

    `ready_ms`: until the group lets it in; `handler_ms`: that a record is in hand.
    """

    ready_ms: int = 0
    handler_ms: int = 0


WITHOUT_END: Final = Patience()


class Conversation:
    """One consumer's session with everything around it; `run` is its one task besides the fetchers.

    `absent` is true while it has left the group because the application does not come back.
    """

    def __init__(
        self,
        wishes: Wishes,
        nodes: Sequence[str],
        token: str,
        options: FetchOptions,
        patience: Patience = WITHOUT_END,
        listener: RebalanceListener | None = None,
    ) -> None:
        self.session = MemberSession(wishes)
        self.fetching = Fetching(options, self._out_of_range, self._ask_for_brokers)
        self.processing = Processing(self.fetching, self._may_fetch, self._look_at_the_clock, self._come_back)
        self.metrics = Metrics(count_records=lambda: self.processing.count, list_lags=self._lags)
        self.committing = Committing(self._obey, lambda: self.ownership.held(), self.metrics)
        self.listening = Listening(listener)
        self.ownership = Ownership(
            lambda: self.session,
            self.fetching,
            self.processing,
            self.committing,
            self.listening,
            self._begin,
            self._obey,
        )
        self.processing.on_close = self.ownership.streams_changed.set
        self.standby = Standby(options, self._ask_for_brokers, self.listening, self._begin)
        self.failure: ConsumerError | None = None
        self.left = asyncio.Event()
        self.absent = False
        self._patience = patience
        self._question = ClusterMetadataRequest(
            correlation_id=0, group_id=wishes.group_id, client_id=wishes.client_id
        )
        self._discovery = Discovery(
            nodes, token, self._question, self._hear_metadata, options.security.ca_file
        )
        self._link: _Link | None = None
        self._rediscover = Rediscover(Instant(0))
        self._found: Transport | None = None
        self._registered = asyncio.Event()
        self._let_in = asyncio.Event()
        self._returned = asyncio.Event()
        self._clock_changed = asyncio.Event()
        self._telling = Telling(lambda: self.session, self.fetching, self._discovery.problems)
        self._newest = 0
        self._tasks: asyncio.TaskGroup | None = None
        self._background: set[asyncio.Task[None]] = set()

    def hold_under(self, guard: AbstractContextManager[Any]) -> None:
        """Another thread hands out records under `guard`, while the session changes nothing."""
        self.fetching.guard = self.committing.guard = guard

    async def run(self) -> None:
        """Talk and fetch until the session is over."""
        self.processing.main.since = clock.now()
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._begin(self.fetching.run(), "fetching")
                self._begin(self._keep_time(), "session clock")
                self._begin(self._talk(), "conversation")
                self._begin(self._telling.report(self.standing), "report")
                if self._patience.ready_ms:
                    self._begin(self._await_ready(), "ready in time")
                await self.left.wait()
                await self.listening.settle(self.session.wishes.session_timeout_ms / 3000)
                for task in self._background:
                    task.cancel()
        finally:
            self._tasks = None
            self._hang_up()
            if self._found is not None:
                self._found.hang_up()
            self.processing.close()
            self.standby.close()
            self.committing.end()
            # Whoever waits to ask once more hears that it is over.
            self._registered.set()
            self.left.set()
            with suppress(ConsumerError, TimeoutError):
                await self.ownership.end_all()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        if self._tasks is None:
            work.close()
            return
        task = self._tasks.create_task(self._or_fail(work), name=name)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _or_fail(self, work: Coroutine[Any, Any, None]) -> None:
        """A ConsumerError is told to whoever iterates, at once; nobody waits for the end of the session."""
        try:
            await work
        except* ConsumerError as problems:
            self.failure = self.failure or _first(problems)
            self.ownership.has_failed = True
            self.processing.close()
            self.standby.close()
            self.leave(failed=True)

    # The clock.

    def _may_fetch(self, now: Instant) -> bool:
        """Asked before each record is handed out."""
        return self.session.may_fetch(now)

    def _look_at_the_clock(self) -> None:
        with self.fetching.guard:
            self._obey(self.session.tick(clock.now()))

    async def _keep_time(self) -> None:
        while True:
            now = clock.now()
            due = [
                one for one in (self.session.look_again_at, self._patience_ends_at(now)) if one is not None
            ]
            wait_s = max(0, min(due) - now) / 1000 if due else None
            self._clock_changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._clock_changed.wait()
            self._look_at_the_clock()
            with self.fetching.guard:
                self._lose_patience(clock.now())

    def _patience_ends_at(self, now: Instant) -> Instant | None:
        """When a record that is in hand now, or is handed out later, has been there for too long."""
        if not self._patience.handler_ms or self.absent:
            return None
        since = min((hand.since for hand in self.processing.awaited if not hand.asked), default=now)
        return after(since, self._patience.handler_ms)

    def _lose_patience(self, now: Instant) -> None:
        due = self._patience_ends_at(now)
        if due is None or now < due or self.left.is_set():
            return
        reason = f"no record was asked for within {self._patience.handler_ms} ms"
        logger.warning("%s; it leaves the group until the next one is asked for", reason)
        self.absent = True
        self._returned.clear()
        # Nobody waits for the handler: others are to get its partitions now.
        for hand in self.processing.readers():
            if not hand.asked:
                hand.release()
        self.ownership.tell_positions()
        self._obey(self.session.leave(now, reason))

    def _come_back(self) -> None:
        """The application asks for records again after `absent`; no handler is out for too long any more."""
        if self.absent and not any(self.processing.overdue(clock.now(), self._patience.handler_ms)):
            self._returned.set()

    async def _await_ready(self) -> None:
        within_ms = self._patience.ready_ms
        try:
            async with asyncio.timeout(within_ms / 1000):
                await self._let_in.wait()
        except TimeoutError:
            standing = self.standing()
            raise NotReady(f"not within {within_ms} ms: {standing.state}: {standing.why}") from None

    # The connection.

    async def _talk(self) -> None:
        while True:
            await self._talk_until_over()
            await self._returned.wait()
            self._returned.clear()
            generation, nodes = self.session.generation, self.session.nodes
            self.session = MemberSession(self.session.wishes)
            self.session.generation, self.session.nodes = generation, nodes
            self.absent = False

    async def _talk_until_over(self) -> None:
        backoff_s = 0.0
        while self.session.stage is not Stage.OVER:
            pause_s = max(0, self._rediscover.not_before - clock.now()) / 1000
            await asyncio.sleep(max(pause_s, backoff_s * random.uniform(0.75, 1.25)))
            transport, self._found = self._found, None
            if transport is None:
                self._learn_nodes()
                transport = await self._discovery.find(self._rediscover.address)
            self._rediscover = Rediscover(Instant(0))
            opened_at = clock.now()
            self.metrics.connected()
            self._link = link = _Link(transport, opened_at)
            beside = [
                asyncio.create_task(_write(link), name="frames to the coordinator"),
                asyncio.create_task(self._watch(link), name="is the coordinator silent"),
            ]
            try:
                with self.fetching.guard:
                    self._obey(self.session.connected(opened_at))
                await self._listen(link)
            finally:
                for task in beside:
                    task.cancel()
                transport.hang_up()
                await asyncio.gather(*beside, return_exceptions=True)
            # A node that closes each connection at once is not asked in a circle.
            longer = min(LAST_BACKOFF_S, max(FIRST_BACKOFF_S, 2 * backoff_s))
            backoff_s = longer if elapsed_ms(opened_at, clock.now()) < SHORT_LIFE_MS else 0.0

    async def _listen(self, link: _Link) -> None:
        while self._link is link:
            try:
                message = await link.transport.hear()
            except (NodeUnreachable, RemoteMessageError) as problem:
                self._lose(link, str(problem))
                return
            if self._link is not link:
                return
            link.heard_at = clock.now()
            match message:
                case ClusterMetadataResponse():
                    self._hear_metadata(message)
                case RegisterConsumerResponse(error_code=error_code) if error_code:
                    self._telling.refusal = message.error_text or "the group is not served there yet"
                case StartFetcherRequest(generation=generation) if generation > self._newest:
                    self._newest = generation
                    self.metrics.rebalances += 1
            with self.fetching.guard:
                self.ownership.tell_positions()
                self._obey(self.session.hear(message, link.heard_at))
                self.ownership.deal()

    def _lose(self, link: _Link, why: str) -> None:
        if self._link is link:
            logger.info("connection to %s: %s", link.transport.address, why)
            self._hang_up()
            with self.fetching.guard:
                self.ownership.tell_positions()
                self._obey(self.session.disconnected(clock.now()))

    async def _watch(self, link: _Link) -> None:
        """A coordinator that says nothing may hang: others are asked, and it is left if they name another.

        A ping comes each third of the session. It is left for nothing less: one that is only late would
        get a Register more from everybody.
        """
        patience_ms = self.session.wishes.session_timeout_ms // 2
        while True:
            silent_ms = elapsed_ms(link.heard_at, clock.now())
            if silent_ms < patience_ms:
                await asyncio.sleep((patience_ms - silent_ms) / 1000)
                continue
            self._learn_nodes()
            found = await self._find_besides(link)
            if found is not None:
                self._found = found
                self._lose(link, f"silent for {elapsed_ms(link.heard_at, clock.now())} ms, and deposed")
                return

    async def _find_besides(self, link: _Link) -> Transport | None:
        """The coordinator, if it is another node than this; None once this one is heard again."""
        silent_since = link.heard_at
        search = asyncio.create_task(self._discovery.find(besides=link.transport.address))
        found: Transport | None = None
        try:
            while not search.done() and link.heard_at == silent_since:
                await asyncio.wait([search], timeout=LOOK_UP_EVERY_S)
            if link.heard_at == silent_since:
                found = await search
            return found
        finally:
            if found is None:
                search.cancel()
                [ended] = await asyncio.gather(search, return_exceptions=True)
                if isinstance(ended, Transport):
                    ended.hang_up()

    def _learn_nodes(self) -> None:
        self._discovery.learn_nodes([node.address for node in self.session.nodes])

    def _ask_for_brokers(self) -> None:
        """No broker that is known answers: they may all have moved, and the coordinator knows where."""
        if self._link is not None and self.session.stage is Stage.REGISTERED:
            self._link.outbox.put_nowait(self._question)

    def _hear_metadata(self, message: ClusterMetadataResponse) -> None:
        self.session.nodes = message.nodes or self.session.nodes
        self._learn_brokers(message.brokers_info)

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link.transport.hang_up()
            self._link = None
        self._registered.clear()

    def _learn_brokers(self, brokers: Iterable[BrokerInfo]) -> None:
        known = {broker.id: broker for broker in brokers}
        addresses = {number: f"{broker.host}:{broker.port}" for number, broker in known.items()}
        security = {number: broker.security for number, broker in known.items()}
        self.fetching.learn_brokers(addresses, security)
        self.standby.learn_brokers(addresses, security)

    # What the session asks.

    def _obey(self, directives: Iterable[Directive]) -> None:
        for directive in directives:
            self._obey_one(directive)
        if self.session.stage in (Stage.REGISTERED, Stage.LEAVING):
            self._telling.refusal = ""
            self._registered.set()
            self._let_in.set()
        self._clock_changed.set()

    def _obey_one(self, directive: Directive) -> None:
        match directive:
            case Send(message):
                if self._link is not None:
                    self._link.outbox.put_nowait(message)
            case EndFetchers(partitions, answer):
                self.ownership.end(partitions, answer)
            case StartFetchers(offsets, kept):
                self._learn_brokers(self.session.brokers)
                self.ownership.start(offsets, kept)
            case StandBy(offsets):
                self._learn_brokers(self.session.brokers)
                self.standby.become(offsets)
            case Disconnect(text):
                logger.info("hanging up: %s", text)
                self._hang_up()
            case Rediscover():
                self._rediscover = directive
            case CommitAnswered(correlation_id):
                self.committing.answered(correlation_id, directive)
            case CommitLost(correlation_ids):
                for correlation_id in correlation_ids:
                    self.committing.answered(correlation_id, None)
            case Refused(error_code, text):
                self.failure = ConsumerRefused(error_code, text)
                self.left.set()
            case Left(unheard):
                if not self.absent:
                    self._telling.farewell(unheard)
                    self.left.set()

    def _out_of_range(self, tenure: Tenure) -> None:
        with self.fetching.guard:
            self.ownership.tell_positions()
            self._obey(self.session.out_of_range(tenure.of, clock.now()))

    def _lags(self) -> Iterator[tuple[TopicPartition, int]]:
        for tenure in self.fetching.tenures():
            if UNKNOWN not in (tenure.high_watermark, tenure.delivered_to):
                yield tenure.place, max(0, tenure.high_watermark - tenure.delivered_to)

    # What the application asks.

    async def commit(self, question: Question | None = None) -> None:
        """Commit what was handed out, or what is asked for; raises CommitFailed."""
        await self.committing.commit(
            lambda: self.session,
            self._registered,
            lambda: self.standing().why or "the coordinator is silent",
            question or self.question(),
        )

    def question(self, offsets: Offsets | None = None, timeout_ms: int = 0) -> Question:
        """What to commit: what other handlers than the one that asks have in hand is not finished."""
        asking = the_hand.get()

        def unfinished() -> frozenset[int]:
            others = (hand.in_hand for hand in self.processing.hands if hand is not asking)
            return frozenset(tenure.number for tenure in others if tenure is not None)

        return Question(offsets, unfinished, timeout_ms)

    def leave(self, *, failed: bool = False) -> None:
        """End fetchers, commit unless it has failed, leave; `left` is set when it is done."""
        self.absent = False
        if self.session.stage is Stage.OVER:
            self.left.set()
            return
        with self.fetching.guard:
            self.ownership.tell_positions()
            now = clock.now()
            self._obey(self.session.abandon(now) if failed else self.session.leave(now))

    # How it stands.

    def standing(self) -> Standing:
        """In one word and one sentence."""
        if self.failure is not None:
            return Standing(State.FAILED, str(self.failure))
        if self.left.is_set():
            return Standing(State.CLOSED)
        if self.absent:
            why = f"a record was in hand for longer than {self._patience.handler_ms} ms"
            return Standing(State.AWAY, why, trouble=True)
        return self._telling.standing()


def _first(problems: BaseExceptionGroup[ConsumerError]) -> ConsumerError:
    first = problems.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


async def _write(link: _Link) -> None:
    while True:
        message = await link.outbox.get()
        try:
            await link.transport.say(message)
        except NodeUnreachable:
            # The listener sees it, too, and tells the session.
            return
