"""This room reads what a node tells Kafka clients of the cluster, and keeps it as new as the wake-ups are.

Who leads a partition is read when the controller says that something changed, and every few seconds though
nothing was said; which nodes live and what they hold, the node knows at any moment.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final
from uuid import UUID

import structlog

from controller import catalog
from gateway.shared_reads import SharedRead
from gateway.translation.cluster import (
    FailedLogs,
    KnownBroker,
    KnownCluster,
    KnownNode,
    KnownPartition,
    KnownTopic,
)
from kafkaserver.cluster_answers import MetadataView, TopicView
from kafkaserver.missed import MissedBrokers
from kafkaserver.producer_ids import NoProducerIds, ProducerIdBlock
from muster.kernel.instants import Instant, elapsed_ms
from muster.kernel.shards import SHARD_COUNT
from muster.messages.link.rows import CLIENT_LISTENER, REPLICATION_LISTENER
from runtime import cluster
from runtime.ports import EVERYTHING, Connection, ConnectionLost, NodeContext, shard_lane
from runtime.vigils import Vigils

log = structlog.get_logger(__name__)

PRODUCER_IDS_PER_BLOCK: Final = 1_000

REFRESH_MS: Final = 5_000
"""How often the rows are read although nothing woke us: a wake-up may be lost."""

CATCH_UP_S: Final = 3.0
"""So long a group's leader waits at most for what others may tell already: in a quiet hour a millisecond."""

LOOKED_FOR_S: Final = 0.3
"""So long anybody else, who asks for a topic that is not known."""


class ClusterOfNode:
    """The latest look at brokers, topics and leaders, and the view that is made of it."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._known = KnownCluster()
        # Of its own: in the loop's threads name servers are waited for, for seconds where they are silent.
        self._learning = ThreadPoolExecutor(1, thread_name_prefix="learn")
        self.missed = MissedBrokers()
        self._vigils = Vigils(self.missed.lose)
        self._reading: asyncio.Task[None] | None = None
        self._stale = False
        self._read_at = Instant(-REFRESH_MS)
        self._decided = SharedRead(node, _metadata_version)
        """Which turn of the controller was the last one."""
        self._waiting: list[Callable[[], None]] = []
        self._looked_again = False
        self.is_known = False
        """True since the first look: before it clients would be told of nobody."""
        self.looks = 0
        """How many have succeeded."""

    def view(self) -> MetadataView:
        """What clients are told now."""
        nodes = self._node.live_nodes()
        numbers = {one.address: one.node_id for one in nodes}
        owners = {
            shard: numbers[address]
            for shard in range(SHARD_COUNT)
            if (address := self.owner_address(shard_lane(shard))) in numbers
        }
        return self._known.view((KnownNode(one.node_id, one.kafka) for one in nodes), owners)

    def owner_address(self, lane: str) -> str | None:
        """Where clients are sent for this lane; None: nowhere yet. What a frozen node held another may have
        taken by now: it sends nobody to itself.
        """
        address = self._node.owner_address(lane)
        return None if self._node.frozen and address == self._node.address else address

    @property
    def topics(self) -> Mapping[str, TopicView]:
        """The topics of the instant, by name."""
        return self._known.topics

    def name_of(self, topic_id: UUID) -> str | None:
        """The name of the topic of this id."""
        return self._known.names.get(topic_id)

    async def producer_ids(self) -> ProducerIdBlock:
        """A block that nobody else has. Raises NoProducerIds."""
        count = PRODUCER_IDS_PER_BLOCK
        try:
            first = await self._node.query(lambda connection: cluster.take_producer_ids(connection, count))
        except ConnectionLost as problem:
            raise NoProducerIds(str(problem)) from problem
        return ProducerIdBlock(first, count)

    def look_again(self, then: Callable[[], None]) -> None:
        """Call `then` behind a read that begins from now on, even if that fails.

        Whoever asks for what nobody knows must not keep the database busy: one look between two ticks is
        for them, and who asks behind it waits for the next.
        """
        self._waiting.append(then)
        if not self._looked_again:
            self._looked_again = True
            self._refresh()

    async def look_for_topics(self) -> None:
        """As `catch_up`, in `LOOKED_FOR_S` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOKED_FOR_S):
                await self.catch_up()

    async def catch_up(self) -> bool:
        """True as soon as everything is known that was decided until now; False if the database does not tell
        it in `CATCH_UP_S`.
        """
        with contextlib.suppress(TimeoutError, ConnectionLost):
            async with asyncio.timeout(CATCH_UP_S):
                decided = await self._decided.now()
                if decided > self._known.metadata_version:
                    await self.next_look()
                return decided <= self._known.metadata_version
        return False

    async def next_look(self) -> None:
        """Return behind a read that begins from now on, even if that fails."""
        looked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done() -> None:
            if not looked.done():
                looked.set_result(None)

        self.look_again(done)
        await looked

    def tick(self, now: Instant) -> None:
        """Read again when the last look is old, or somebody waits for another; called every 100 ms."""
        self._looked_again = bool(self._waiting)
        if self._waiting:
            self._refresh()
        if elapsed_ms(self._read_at, now) >= REFRESH_MS:
            self._read_at = now
            self._refresh()

    def woken(self, name: str) -> None:
        """Read again what the wake-up names."""
        if name in ("cluster", "logs", EVERYTHING):
            self._refresh()

    def stop(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()
        self._vigils.keep({})

    def _refresh(self) -> None:
        """Read soon; asked while a read is under way, once more after it."""
        self._stale = True
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="look at the cluster for Kafka clients")

    async def _read(self) -> None:
        while self._stale:
            self._stale = False
            waiting, self._waiting = self._waiting, []
            try:
                learnt = await self._node.query(partial(_look, above=self._known.version))
                # A death concerns all of a hundred thousand partitions, which would hold the loop for 0.1 s.
                learn = partial(self._known.learn, *learnt)
                await asyncio.get_running_loop().run_in_executor(self._learning, learn)
                self.is_known = True
                self.looks += 1
                _, brokers, *_ = learnt
                self._vigils.keep({one.broker_id: one.peers_address for one in brokers if one.live})
                self.missed.see(self.view())
            except ConnectionLost as problem:
                # The tick asks again; until then the older look holds.
                log.info("look at the cluster failed", problem=str(problem))
                return
            finally:
                # At once: what is said from now on finds what was learnt, and must not overtake them.
                _call(waiting)


def _call(waiting: list[Callable[[], None]]) -> None:
    for then in waiting:
        try:
            then()
        except Exception:
            # The others are to be answered: nobody else would call them.
            log.exception("whoever waited for the look could not go on")


def _metadata_version(connection: Connection) -> int:
    return cluster.read(connection).metadata_version


def _look(
    connection: Connection, above: int
) -> tuple[str, list[KnownBroker], list[KnownTopic], list[KnownPartition], list[FailedLogs], int]:
    """Partitions first: of a topic that is made meanwhile they come with the next look, as their version is
    higher; read after the topics, they would be partitions of no topic, and dropped.
    """
    row = cluster.read(connection)
    changed = [
        KnownPartition(one.topic_id, number, one.assigned, one.leader, one.leader_epoch, one.isr, one.version)
        for one in catalog.partitions(connection, above)
        for number in one.numbers
    ]
    topics = [
        KnownTopic(one.name, one.topic_id, one.partition_count)
        for one in catalog.layouts(connection).values()
    ]
    brokers = [
        KnownBroker(
            one.broker_id,
            one.endpoints.get(CLIENT_LISTENER, ""),
            one.rack,
            is_live,
            one.endpoints.get(REPLICATION_LISTENER, ""),
        )
        for ask, is_live in ((catalog.live_brokers, True), (catalog.fenced_brokers, False))
        for one in ask(connection)
    ]
    failed = [FailedLogs(*one) for one in catalog.offline_logs(connection)]
    return str(row.cluster_id), brokers, topics, changed, failed, row.metadata_version
