"""This room keeps a consumer's session alive: it finds the coordinator, carries frames, obeys the session."""

import asyncio
import logging
import random
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from muster.client import clock
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
    StartFetchers,
)
from muster.client.core.session import MemberSession, Stage, Wishes
from muster.client.errors import CommitFailed, ConsumerError, ConsumerRefused
from muster.client.fetching import Fetching, FetchOptions
from muster.client.processing import Processing
from muster.client.tenure import UNKNOWN, Tenure
from muster.client.transport import NodeUnreachable, Transport, Unwelcome
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.errors import RemoteMessageError
from muster.messages.member import BrokerInfo, ClusterMetadataRequest, ClusterMetadataResponse, FromMember
from muster.messages.partitions import Partition, Position

logger = logging.getLogger("muster.client")

FIRST_BACKOFF_S = 0.05
LAST_BACKOFF_S = 1.0
METADATA_TIMEOUT_S = 3.0
SHORT_LIFE_MS = 1_000
UNWELCOME_MS = 5_000
"""How long nodes may refuse the token before it is believed: not every node has heard of a new one yet."""


@dataclass(slots=True)
class _Link:
    """The one connection to the coordinator, and what waits to be written to it."""

    transport: Transport
    outbox: "asyncio.Queue[FromMember]" = field(default_factory=asyncio.Queue)


class Conversation:
    """One consumer's session with everything around it; `run` is its one task besides the fetchers."""

    def __init__(self, wishes: Wishes, nodes: Iterable[str], token: str, options: FetchOptions) -> None:
        self.session = MemberSession(wishes)
        self.fetching = Fetching(options, self._out_of_range, self._ask_for_brokers)
        self.processing = Processing(self.fetching, self._may_fetch)
        self._bootstrap = tuple(nodes)
        self._token = token
        self._link: _Link | None = None
        self._rediscover = Rediscover(Instant(0))
        self._commits: dict[int, asyncio.Future[CommitAnswered | None]] = {}
        self._registered = asyncio.Event()
        self._clock_changed = asyncio.Event()
        self._ending: dict[int, list[Tenure]] = {}
        self._uncommitted: dict[Partition, Position] = {}
        self._tenures = 0
        self._tasks: asyncio.TaskGroup | None = None
        self._background: set[asyncio.Task[None]] = set()
        self.failure: ConsumerError | None = None
        self.left = asyncio.Event()

    async def run(self) -> None:
        """Talk and fetch until the session is over; ConsumerErrors become `failure`."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._begin(self.fetching.run(), "fetching")
                self._begin(self._keep_time(), "session clock")
                self._begin(self._talk(), "conversation")
                await self.left.wait()
                for task in self._background:
                    task.cancel()
        except* ConsumerError as problems:
            self.failure = _first(problems)
        finally:
            self._tasks = None
            self._hang_up()
            self._end_everything()
            self.left.set()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        if self._tasks is None:
            work.close()
            return
        task = self._tasks.create_task(work, name=name)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _end_everything(self) -> None:
        for tenure in list(self.fetching.tenures()):
            self.fetching.stop(tenure.key)
        self.processing.close()
        for future in self._commits.values():
            if not future.done():
                future.set_result(None)

    # The clock.

    def _may_fetch(self) -> bool:
        now = clock.now()
        if self.session.may_fetch(now):
            return True
        self._obey(self.session.tick(now))
        return False

    async def _keep_time(self) -> None:
        while True:
            due = self.session.look_again_at
            self._clock_changed.clear()
            wait_s = None if due is None else max(0, due - clock.now()) / 1000
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._clock_changed.wait()
            self._obey(self.session.tick(clock.now()))

    # The connection.

    async def _talk(self) -> None:
        backoff_s = 0.0
        while self.session.stage is not Stage.OVER:
            pause_s = max(0, self._rediscover.not_before - clock.now()) / 1000
            await asyncio.sleep(max(pause_s, backoff_s * random.uniform(0.75, 1.25)))
            transport = await self._find_coordinator(self._rediscover.address)
            self._rediscover = Rediscover(Instant(0))
            self._link = link = _Link(transport)
            writer = asyncio.create_task(_write(link), name="frames to the coordinator")
            opened_at = clock.now()
            try:
                self._obey(self.session.connected(clock.now()))
                await self._listen(link)
            finally:
                writer.cancel()
                transport.hang_up()
                await asyncio.gather(writer, return_exceptions=True)
            # A node that closes each connection at once is not asked in a circle.
            lived_ms = clock.now() - opened_at
            longer = min(LAST_BACKOFF_S, max(FIRST_BACKOFF_S, 2 * backoff_s))
            backoff_s = longer if lived_ms < SHORT_LIFE_MS else 0.0

    async def _listen(self, link: _Link) -> None:
        while self._link is link:
            try:
                message = await link.transport.hear()
            except (NodeUnreachable, RemoteMessageError) as problem:
                if self._link is link:
                    logger.info("connection to %s: %s", link.transport.address, problem)
                    self._hang_up()
                    self._tell_positions()
                    self._obey(self.session.disconnected(clock.now()))
                return
            if self._link is not link:
                return
            if isinstance(message, ClusterMetadataResponse):
                self._learn_brokers(message.brokers_info)
            self._tell_positions()
            self._obey(self.session.hear(message, clock.now()))

    async def _find_coordinator(self, hint: str) -> Transport:
        """A connection to the coordinator's node; tries every known node until one answers."""
        backoff_s = FIRST_BACKOFF_S
        unwelcome_since: Instant | None = None
        while True:
            if hint:
                with suppress(NodeUnreachable, Unwelcome):
                    return await Transport.open(hint, self._token)
            for address in self._known_nodes():
                try:
                    return await self._ask_for_coordinator(address)
                except (NodeUnreachable, RemoteMessageError, TimeoutError) as problem:
                    logger.info("node %s: %s", address, problem)
                except Unwelcome as refusal:
                    unwelcome_since = unwelcome_since or clock.now()
                    if clock.now() - unwelcome_since >= UNWELCOME_MS:
                        raise ConsumerRefused(ErrorCode.AUTHENTICATION_FAILED, str(refusal)) from refusal
            hint = ""
            await asyncio.sleep(backoff_s * random.uniform(0.75, 1.25))
            backoff_s = min(LAST_BACKOFF_S, backoff_s * 2)

    def _ask_for_brokers(self) -> None:
        """No broker that is known answers: they may all have moved, and the coordinator knows where."""
        if self._link is not None and self.session.stage is Stage.REGISTERED:
            self._link.outbox.put_nowait(self._metadata_question())

    def _metadata_question(self) -> ClusterMetadataRequest:
        wishes = self.session.wishes
        return ClusterMetadataRequest(correlation_id=0, group_id=wishes.group_id, client_id=wishes.client_id)

    def _known_nodes(self) -> list[str]:
        """The nodes last heard of, in any order, then those given at the start."""
        heard = [node.address for node in self.session.nodes]
        random.shuffle(heard)
        return list(dict.fromkeys([*heard, *self._bootstrap]))

    async def _ask_for_coordinator(self, address: str) -> Transport:
        transport = await Transport.open(address, self._token)
        arrived = False
        try:
            await transport.say(self._metadata_question())
            async with asyncio.timeout(METADATA_TIMEOUT_S):
                answer = await transport.hear()
            if not isinstance(answer, ClusterMetadataResponse) or not answer.coordinator_address:
                raise NodeUnreachable("nobody owns the group's shard")
            self.session.nodes = answer.nodes or self.session.nodes
            self._learn_brokers(answer.brokers_info)
            arrived = answer.coordinator_address == address
        finally:
            if not arrived:
                transport.hang_up()
        return transport if arrived else await Transport.open(answer.coordinator_address, self._token)

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link.transport.hang_up()
            self._link = None
        self._registered.clear()

    def _learn_brokers(self, brokers: Iterable[BrokerInfo]) -> None:
        self.fetching.learn_brokers({broker.id: f"{broker.host}:{broker.port}" for broker in brokers})

    # What the session asks.

    def _obey(self, directives: Iterable[Directive]) -> None:
        for directive in directives:
            self._obey_one(directive)
        if self.session.stage is Stage.REGISTERED:
            self._registered.set()
        self._clock_changed.set()

    def _obey_one(self, directive: Directive) -> None:
        match directive:
            case Send(message):
                if self._link is not None:
                    self._link.outbox.put_nowait(message)
            case EndFetchers(partitions, answer):
                self._end_fetchers(partitions, answer)
            case StartFetchers(offsets):
                self._learn_brokers(self.session.brokers)
                for partition, offset in offsets.items():
                    self._start_fetcher(partition, offset)
            case Disconnect(text):
                logger.info("hanging up: %s", text)
                self._hang_up()
            case Rediscover():
                self._rediscover = directive
            case CommitAnswered(correlation_id):
                self._answer_commit(correlation_id, directive)
            case CommitLost(correlation_ids):
                for correlation_id in correlation_ids:
                    self._answer_commit(correlation_id, None)
            case Refused(error_code, text):
                self.failure = ConsumerRefused(error_code, text)
                self.left.set()
            case Left():
                self.left.set()

    def _start_fetcher(self, partition: Partition, offset: int) -> None:
        generation = self.session.fetching[partition].generation
        lost = self._uncommitted.get(partition)
        if lost is not None and lost.generation == generation and lost.offset <= offset:
            # Nobody else had it in between: what was handed out before the break was committed after all.
            del self._uncommitted[partition]
        self._tenures += 1
        where = partition.topic, partition.topic_id, partition.number
        self.fetching.start(Tenure(*where, generation, offset, self._tenures))

    def _end_fetchers(self, partitions: frozenset[Partition], answer: int | None) -> None:
        ended = [self.fetching.stop((one.topic_id, one.number)) for one in partitions]
        tenures = [tenure for tenure in ended if tenure is not None]
        if answer is None:
            self._give_up_committing(tenures)
        else:
            self._ending[answer] = tenures
            self._begin(self._answer_when_ended(tenures, answer), f"ending {answer}")

    def _give_up_committing(self, tenures: Iterable[Tenure]) -> None:
        """These cannot be committed any more: the next `commit` says so, instead of passing them over."""
        for tenure in tenures:
            if tenure.has_uncommitted:
                self._uncommitted[_partition_of(tenure)] = Position(tenure.delivered_to, tenure.generation)

    async def _answer_when_ended(self, tenures: list[Tenure], answer: int) -> None:
        """A record that the application holds is waited for, so that nobody else consumes it meanwhile."""
        await self.processing.wait_until_free(tenures, self.session.wishes.session_timeout_ms / 3000)
        del self._ending[answer]
        self._tell_positions(tenures)
        asked = self.session.fetchers_ended(answer, clock.now())
        told = self.session.wishes.auto_commit and any(isinstance(one, Send) for one in asked)
        self._give_up_committing(one for one in tenures if not told or one.finished_to < one.delivered_to)
        self._obey(asked)

    def _tell_positions(self, ended: Iterable[Tenure] = ()) -> None:
        for tenure in (*self.fetching.tenures(), *ended):
            if tenure.finished_to != UNKNOWN:
                self.session.advance(_partition_of(tenure), tenure.finished_to)

    def _out_of_range(self, tenure: Tenure) -> None:
        self._tell_positions()
        self._obey(self.session.out_of_range(_partition_of(tenure), clock.now()))

    # What the application asks.

    async def commit(self) -> None:
        """Commit what was handed out, the record in hand included; returns after the coordinator's COMMIT.

        Raises CommitFailed, also for what was handed out of partitions that this member has lost since.
        """
        within_ms = self.session.wishes.session_timeout_ms
        try:
            async with asyncio.timeout(within_ms / 1000):
                while not await self._commit_once():
                    await self._registered.wait()
                    await asyncio.sleep(0)
        except TimeoutError:
            raise CommitFailed(f"no answer within {within_ms} ms") from None

    async def _commit_once(self) -> bool:
        """True if the coordinator answered, or there was nothing to commit; False: ask again."""
        if self.failure is not None or self.left.is_set():
            raise CommitFailed("the session is over")
        tenures = {
            _partition_of(tenure): tenure
            # Also of those that are about to be handed over: the application may hold their last record.
            for tenure in chain(self.fetching.tenures(), *self._ending.values())
            if tenure.delivered_to not in (UNKNOWN, tenure.committed_to)
        }
        positions = {}
        for partition, tenure in tenures.items():
            # A ping must not take back what this commits.
            tenure.finished_to = tenure.delivered_to
            positions[partition] = Position(tenure.delivered_to, tenure.generation)
        if not positions:
            self._own_up({})
            return True
        number, directives = self.session.commit(positions)
        if not number:
            return False
        future: asyncio.Future[CommitAnswered | None] = asyncio.get_running_loop().create_future()
        self._commits[number] = future
        self._obey(directives)
        answer = await future
        if answer is None:
            return False
        for partition, tenure in tenures.items():
            if partition not in answer.refused and answer.error_code is ErrorCode.NONE:
                tenure.committed_to = positions[partition].offset
        if answer.error_code is not ErrorCode.NONE:
            raise CommitFailed(answer.error_code.name, answer.refused)
        self._own_up(answer.refused)
        return True

    def _own_up(self, refused: Mapping[Partition, ErrorCode]) -> None:
        """Raise CommitFailed if something that was handed out is not committed and will not be; once."""
        lost = dict.fromkeys(self._uncommitted, ErrorCode.NOT_PARTITION_OWNER)
        self._uncommitted.clear()
        if failed := {**lost, **refused}:
            named = ", ".join(f"{one}: {why.name}" for one, why in failed.items())
            raise CommitFailed(named, failed)

    def _answer_commit(self, correlation_id: int, answer: CommitAnswered | None) -> None:
        future = self._commits.pop(correlation_id, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def leave(self) -> None:
        """End fetchers, commit, leave; `left` is set when it is done."""
        self._tell_positions()
        self._obey(self.session.leave(clock.now()))


def _partition_of(tenure: Tenure) -> Partition:
    return Partition(tenure.topic, tenure.topic_id, tenure.partition)


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
