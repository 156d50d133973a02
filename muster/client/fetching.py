"""This room fetches the partitions that the member owns from their leaders, one connection a broker."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from muster.client import broker_questions as questions
from muster.client.broker_connection import BrokerConnection, BrokerNotTrusted, BrokerUnavailable, Question
from muster.client.errors import NoOffset, OffsetsUnknown
from muster.client.history import Parting
from muster.client.record import TopicPartition
from muster.client.securing import AS_TOLD, Security
from muster.client.tenure import UNKNOWN, Tenure
from muster.kafkawire.errors import CorruptBatch, KafkaWireError, UnsupportedCompression
from muster.kafkawire.records import DEFAULT_LIMIT_BYTES
from muster.kernel.error_codes import ErrorCode
from muster.kernel.security_protocols import PLAINTEXT

logger = logging.getLogger("muster.client")

FIRST_BACKOFF_S = 0.05
LAST_BACKOFF_S = 1.0
READY_MIN: Final = 500
READY_BYTES: Final = 1024 * 1024
"""Small batches are opened together until so many records or bytes are ready: each turn has its price."""
CORRUPT_ANSWERS_MAX: Final = 3
"""A batch that is corrupt this often is corrupt on the broker, not on its way."""


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How records are fetched; bytes and milliseconds as their names say.

    `reset_to` is where a partition begins for which nothing is committed; None: NoOffset is raised.
    `batch_max_bytes` is how large one batch may become when it is decompressed. `security` is how brokers are
    spoken to, as far as the application says so.
    """

    client_id: str
    security: Security = AS_TOLD
    reset_to: int | None = questions.LATEST
    wait_ms: int = 250
    request_timeout_ms: int = 5_000
    request_max_bytes: int = 8 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    buffer_max_bytes: int = 32 * 1024 * 1024
    batch_max_bytes: int = DEFAULT_LIMIT_BYTES


class Fetching:
    """Tenures that run, the pumps that fill them, and the search for leaders.

    `run` is one task of the consumer; everything else is called on the same event loop. `guard` is held
    whenever records that were ready are taken back: another thread may hand them out under it.
    """

    def __init__(
        self,
        options: FetchOptions,
        on_out_of_range: Callable[[Tenure], None],
        on_no_broker: Callable[[], None],
    ) -> None:
        self.guard: AbstractContextManager[Any] = nullcontext()
        self._options = options
        self._on_out_of_range = on_out_of_range
        self._on_no_broker = on_no_broker
        self._tenures: dict[tuple[UUID, int], Tenure] = {}
        self._addresses: dict[int, str] = {}
        self._protocols: dict[int, str] = {}
        self._no_answer = ""
        self._stalled: dict[tuple[UUID, int], str] = {}
        self._pumps: dict[int, asyncio.Event] = {}
        self._connections: set[BrokerConnection] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self._leader_missing = asyncio.Event()
        self._arrived = asyncio.Event()
        self._backoff_s = FIRST_BACKOFF_S
        self._turn_of: Tenure | None = None

    # What the session says.

    def learn_brokers(self, addresses: Mapping[int, str], protocols: Mapping[int, str] | None = None) -> None:
        """Where brokers are, by id, as "host:port", and how they are spoken to where somebody says so.

        The newest word replaces the older one.
        """
        if addresses:
            self._addresses = dict(addresses)
        if protocols:
            self._protocols = dict(protocols)

    def start(self, tenure: Tenure) -> None:
        """Fetch a partition from now on; one that runs under the same name ends first."""
        self.stop(tenure.key)
        self._tenures[tenure.key] = tenure
        self._leader_missing.set()

    def stop(self, key: tuple[UUID, int]) -> Tenure | None:
        """End a tenure; when this returns nothing of it will be handed out any more."""
        was_full = self._is_full
        tenure = self._tenures.pop(key, None)
        self._stalled.pop(key, None)
        if tenure is not None:
            with self.guard:
                tenure.end()
            self._arrived.set()
            self._let_pumps_look(was_full)
        return tenure

    def tenures(self) -> list[Tenure]:
        """What runs; any thread may ask."""
        return list(self._tenures.values())

    def tenure(self, key: tuple[UUID, int]) -> Tenure | None:
        """The tenure of this partition that runs, if one does."""
        return self._tenures.get(key)

    @property
    def stalled(self) -> Mapping[tuple[UUID, int], str]:
        """What cannot be fetched, by `Tenure.key`, and why."""
        return self._stalled

    async def offsets_at(
        self, places: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        """Where the first records not older than `timestamp_ms` lie; EARLIEST, LATEST: the ends of the logs.

        −1: there is none. Raises OffsetsUnknown.
        """
        wanted = list(places)
        view = await self._ask_anybody({place.topic for place in wanted})
        if view is None:
            raise OffsetsUnknown(self._no_answer)
        self.learn_brokers(view.brokers)
        ids = view.topic_ids
        by_leader: dict[int, list[questions.Wanted]] = {}
        for place in wanted:
            leader = view.leaders.get((ids[place.topic], place.partition)) if place.topic in ids else None
            if leader is None or leader.broker_id not in view.brokers:
                raise OffsetsUnknown(f"{place.topic}-{place.partition} does not exist or has no leader")
            epoch = leader.leader_epoch
            wish = questions.Wanted(place.topic, ids[place.topic], place.partition, epoch, UNKNOWN)
            by_leader.setdefault(leader.broker_id, []).append(wish)
        found: dict[TopicPartition, int] = {}
        for broker_id, asked in by_leader.items():
            for one in questions.read_offsets(await self._ask_once(broker_id, asked, timestamp_ms)):
                if one.error_code != ErrorCode.NONE:
                    raise OffsetsUnknown(f"{one.topic}-{one.partition}: its broker answered {one.error_code}")
                found[TopicPartition(one.topic, one.partition)] = one.offset
        return found

    async def _ask_once(self, broker_id: int, asked: list[questions.Wanted], timestamp_ms: int) -> Any:
        """Beside the pumps, whose connections wait for records."""
        try:
            connection = await self._open(broker_id)
            try:
                return await self._ask(connection, questions.ask_offsets(asked, timestamp_ms), 0)
            finally:
                connection.close()
        except BrokerUnavailable as problem:
            raise OffsetsUnknown(str(problem)) from problem

    async def missing(self, topics: set[str]) -> frozenset[str] | None:
        """Which of `topics` do not exist, as brokers say; None if no broker answers."""
        view = await self._ask_anybody(topics)
        return None if view is None else frozenset(topics - view.topic_ids.keys())

    # What the application asks.

    def seek(self, tenure: Tenure, offset: int, reset_to: int | None = None) -> None:
        """Go on at `offset`, whatever lies before it; UNKNOWN: where ListOffsets says that `reset_to` is."""
        was_full = self._is_full
        with self.guard:
            tenure.seek(offset, reset_to)
        self._wake_pump(tenure)
        self._let_pumps_look(was_full)

    def look_again(self, tenure: Tenure) -> None:
        """It rests no longer, or nobody hands it out any more."""
        self._arrived.set()
        self._wake_pump(tenure)

    def interrupt(self) -> None:
        """Whoever waits in `fill` gets None."""
        self._arrived.set()

    async def fill(self, wants: Callable[[Tenure], bool]) -> Tenure | None:
        """A tenure that `wants` and that has records ready; they take turns. None after a wait: ask again.

        Raises UnreadableBatch for what cannot be opened.
        """
        while True:
            for tenure in self._in_turns(wants):
                if tenure.unreadable is not None and not tenure.ready and not tenure.has_batches:
                    raise tenure.unreadable
                self._turn_of = tenure
                was_full = self._is_full
                if not tenure.ready:
                    self._open_first(tenure)
                self._open_more(tenure)
                self._wake_pump(tenure)
                self._let_pumps_look(was_full)
                if tenure.ready:
                    return tenure
            self._arrived.clear()
            if not any(tenure.has_news and wants(tenure) for tenure in self._tenures.values()):
                await self._arrived.wait()
                return None

    def _in_turns(self, wants: Callable[[Tenure], bool]) -> list[Tenure]:
        able = [tenure for tenure in self._tenures.values() if tenure.has_news and wants(tenure)]
        if self._turn_of in able:
            after = able.index(self._turn_of) + 1
            able = able[after:] + able[:after]
        return able

    def _open_first(self, tenure: Tenure) -> None:
        try:
            if tenure.open_some(self._options.batch_max_bytes):
                tenure.corrupt_answers = 0
        except UnsupportedCompression as problem:
            raise tenure.cannot_be_opened(problem) from problem
        except CorruptBatch as problem:
            if self._is_hopeless(tenure, problem):
                raise tenure.cannot_be_opened(problem) from problem

    def _open_more(self, tenure: Tenure) -> None:
        """Small batches together; one that cannot be opened is looked at when it is the first."""
        try:
            while tenure.has_batches and len(tenure.ready) < READY_MIN and tenure.opened_bytes < READY_BYTES:
                tenure.open_some(self._options.batch_max_bytes)
        except KafkaWireError:
            return

    def _is_hopeless(self, tenure: Tenure, problem: CorruptBatch) -> bool:
        """True if fetching it again has not helped; else it is fetched again."""
        tenure.corrupt_answers += 1
        if tenure.corrupt_answers >= CORRUPT_ANSWERS_MAX:
            return True
        logger.warning("%s: corrupt batch at %d, fetched again: %s", tenure, tenure.delivered_to, problem)
        with self.guard:
            tenure.drop_buffer()
        return False

    # The pumps.

    async def run(self) -> None:
        """Fetch until cancelled; a lost broker is no error, a mistake of ours is one."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                await self._find_leaders()
        finally:
            self._tasks = None
            self._pumps.clear()
            for connection in list(self._connections):
                connection.close()
            self._connections.clear()

    async def _find_leaders(self) -> None:
        while True:
            await self._leader_missing.wait()
            self._leader_missing.clear()
            homeless = [tenure for tenure in self._tenures.values() if tenure.leader is None]
            if not homeless:
                continue
            view = await self._ask_anybody({tenure.topic for tenure in homeless})
            if view is None:
                self._on_no_broker()
                self._stall(homeless, self._no_answer)
            else:
                self.learn_brokers(view.brokers)
                self._settle(homeless, view)
                if self._backoff_s >= LAST_BACKOFF_S:
                    # Some are not reached for longer: they may ask for TLS or for a token by now.
                    self._on_no_broker()
            if any(not tenure.ended and tenure.leader is None for tenure in homeless):
                self._leader_missing.set()
            # Also after an answer: a broker that has not heard of an election names the old leader again.
            await asyncio.sleep(self._backoff_s * random.uniform(0.75, 1.25))
            self._backoff_s = min(LAST_BACKOFF_S, self._backoff_s * 2)

    def _settle(self, homeless: list[Tenure], view: questions.ClusterView) -> None:
        for tenure in homeless:
            leader = view.leaders.get(tenure.key)
            if leader is not None and leader.broker_id in view.brokers and not tenure.ended:
                tenure.leader = leader
                self._wake_pump(tenure)
            else:
                self._stall([tenure], "it has no leader at the moment")

    def _stall(self, tenures: Iterable[Tenure], why: str) -> None:
        for tenure in tenures:
            if not tenure.ended:
                self._stalled.setdefault(tenure.key, why)

    async def _ask_anybody(self, topics: set[str]) -> questions.ClusterView | None:
        brokers = list(self._addresses)
        random.shuffle(brokers)
        self._no_answer = "no broker answers"
        for broker_id in brokers:
            try:
                connection = await self._open(broker_id)
                try:
                    answer = await connection.ask(questions.ask_metadata(topics), timeout_s=2.0)
                finally:
                    connection.close()
            except BrokerUnavailable as problem:
                logger.debug("metadata: %s", problem)
                if isinstance(problem, BrokerNotTrusted):
                    self._no_answer = f"no broker answers: {problem}"
                continue
            return questions.read_metadata(answer)
        return None

    def _wake_pump(self, tenure: Tenure) -> None:
        if tenure.leader is None or self._tasks is None:
            return
        broker_id = tenure.leader.broker_id
        if broker_id not in self._pumps:
            self._pumps[broker_id] = asyncio.Event()
            self._tasks.create_task(self._pump(broker_id), name=f"fetch from broker {broker_id}")
        self._pumps[broker_id].set()

    def _let_pumps_look(self, was_full: bool) -> None:
        """Room was made in a full buffer: also those wait for it whose partitions fill none of it."""
        if was_full and not self._is_full:
            for wake in self._pumps.values():
                wake.set()

    @property
    def _is_full(self) -> bool:
        held = sum(tenure.buffered_bytes for tenure in self._tenures.values())
        return held >= self._options.buffer_max_bytes

    async def _pump(self, broker_id: int) -> None:
        wake = self._pumps[broker_id]
        connection: BrokerConnection | None = None
        while True:
            led = self._led_by(broker_id)
            if not led:
                wake.clear()
                await wake.wait()
                continue
            try:
                if connection is None or connection.closed:
                    connection = await self._connect(broker_id)
                await self._find_positions(connection, led)
                await self._fetch(connection, led)
            except BrokerUnavailable as problem:
                logger.info("broker %d: %s", broker_id, problem)
                if connection is not None:
                    connection.close()
                    self._connections.discard(connection)
                    connection = None
                self._lose_leader(led, str(problem))

    def _led_by(self, broker_id: int) -> list[Tenure]:
        if self._is_full:
            self._drop_what_rests()
        if self._is_full:
            return []
        return [
            tenure
            for tenure in self._tenures.values()
            if tenure.leader is not None
            and tenure.leader.broker_id == broker_id
            and tenure.buffered_bytes < self._options.partition_max_bytes
            and tenure.unreadable is None
            and not tenure.resting
        ]

    def _drop_what_rests(self) -> None:
        """Partitions that are paused keep what they have, but not at the cost of the others."""
        for tenure in self._tenures.values():
            if tenure.resting and tenure.buffered_bytes:
                with self.guard:
                    tenure.drop_buffer()

    async def _connect(self, broker_id: int) -> BrokerConnection:
        connection = await self._open(broker_id)
        self._connections.add(connection)
        return connection

    async def _open(self, broker_id: int) -> BrokerConnection:
        """As this broker is spoken to; of one that only brokers named, nobody said anything else."""
        address = self._addresses.get(broker_id)
        if address is None:
            raise BrokerUnavailable("nobody knows its address")
        of_any = next(iter(self._protocols.values()), PLAINTEXT)
        security = self._options.security.told(self._protocols.get(broker_id, of_any))
        return await BrokerConnection.open(address, self._options.client_id, security)

    async def _find_positions(self, connection: BrokerConnection, led: list[Tenure]) -> None:
        """auto_offset_reset, and seeks to an end: the log's begin or end is asked for."""
        lost = [tenure for tenure in led if tenure.fetched_to == UNKNOWN and not tenure.ended]
        for reset_to, tenures in groupby(sorted(lost, key=self._where), key=self._where):
            await self._find_ends(connection, list(tenures), reset_to)

    def _where(self, tenure: Tenure) -> int:
        reset_to = self._options.reset_to if tenure.reset_to is None else tenure.reset_to
        if reset_to is None:
            raise NoOffset(f"no offset to begin at for {tenure}")
        return reset_to

    async def _find_ends(self, connection: BrokerConnection, tenures: list[Tenure], reset_to: int) -> None:
        asked = {(tenure.topic, tenure.partition): (tenure, tenure.seeks) for tenure in tenures}
        wanted = [tenure.wanted() for tenure in tenures]
        answer = await self._ask(connection, questions.ask_offsets(wanted, reset_to), 0)
        for found in questions.read_offsets(answer):
            tenure, seeks = asked.get((found.topic, found.partition), (None, 0))
            if tenure is None or tenure.ended or tenure.seeks != seeks:
                # The application has sought another place meanwhile.
                continue
            if found.error_code == ErrorCode.NONE:
                tenure.begin_at(found.offset)
            else:
                self._lose_leader([tenure], f"its broker answered {found.error_code}")

    async def _fetch(self, connection: BrokerConnection, led: list[Tenure]) -> None:
        options = self._options
        asked = {
            tenure.key: (tenure, tenure.wanted())
            for tenure in led
            if not tenure.ended and tenure.fetched_to != UNKNOWN
        }
        if not asked:
            return
        question = questions.ask_fetch(
            [wanted for _, wanted in asked.values()],
            wait_ms=options.wait_ms,
            max_bytes=options.request_max_bytes,
            partition_max_bytes=options.partition_max_bytes,
        )
        answer = await self._ask(connection, question, options.wait_ms)
        if answer.error_code != ErrorCode.NONE:
            raise BrokerUnavailable(f"Fetch answered {int(answer.error_code)}")
        for fetched in questions.read_fetch(answer):
            tenure, wanted = asked.get((fetched.topic_id, fetched.partition), (None, None))
            if tenure is None or wanted is None or tenure.ended or tenure.fetched_to != wanted.offset:
                # Also when its buffer was dropped meanwhile: what was asked for lies behind a gap now.
                continue
            if fetched.parting is not None:
                self._part(tenure, fetched.parting)
            elif fetched.error_code == ErrorCode.NONE:
                self._stalled.pop(tenure.key, None)
                tenure.high_watermark, tenure.read_under = fetched.high_watermark, wanted.leader_epoch
                self._take_in(tenure, fetched.records)
            elif fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                logger.warning("%s: offset %d is out of range", tenure, tenure.fetched_to)
                if tenure.seeks:
                    # The application's own word, which ends no session: auto_offset_reset, right here.
                    self.seek(tenure, UNKNOWN)
                else:
                    self._on_out_of_range(tenure)
            else:
                logger.info("%s: broker answered %d", tenure, fetched.error_code)
                self._lose_leader([tenure], f"its broker answered {fetched.error_code}")

    def _part(self, tenure: Tenure, told: Parting) -> None:
        """An election lost what was read, or another partition has the number by now. May raise NoOffset."""
        with self.guard:
            go_on_at = tenure.part(told)
        if go_on_at is not None:
            why = (
                f"{tenure}: the log is another one from offset {go_on_at} on; {tenure.delivered_to} was next"
            )
            if self._options.reset_to is None:
                raise NoOffset(why)
            logger.warning("%s: what is there now is read", why)
            known = tenure.history.until(go_on_at, told.epoch)
            self.seek(tenure, go_on_at)
            tenure.history = known

    def _take_in(self, tenure: Tenure, records: bytes) -> None:
        self._backoff_s = FIRST_BACKOFF_S
        try:
            if tenure.accept(records):
                self._arrived.set()
        except CorruptBatch as problem:
            if self._is_hopeless(tenure, problem):
                tenure.cannot_go_on(problem)
                self._arrived.set()

    async def _ask(self, connection: BrokerConnection, question: Question, wait_ms: int) -> Any:
        return await connection.ask(question, (self._options.request_timeout_ms + wait_ms) / 1000)

    def _lose_leader(self, tenures: list[Tenure], why: str) -> None:
        """Somebody else may lead these."""
        for tenure in tenures:
            tenure.leader = None
        if tenures:
            self._stall(tenures, why)
            self._leader_missing.set()
