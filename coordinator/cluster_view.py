"""This room is what a node's coordinators know of the cluster: nodes, brokers and topics."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from controller import catalog
from coordinator import patterns
from coordinator.core.settings import Surroundings
from muster.kernel.instants import Instant, elapsed_ms
from muster.kernel.security_protocols import PLAINTEXT
from muster.kernel.shards import shard_of
from muster.kernel.topology import Layouts
from muster.messages.link.rows import CLIENT_LISTENER, CLIENT_SECURITY
from muster.messages.member import BrokerInfo, NodeInfo
from runtime.ports import Connection, ConnectionLost, NodeContext, shard_lane

logger = logging.getLogger("muster.coordinator")

REFRESH_MS = 5_000
"""How often the rows are read although nothing woke us: a wake-up may be lost."""


class Gone(NamedTuple):
    """Ids of topics that are no more; partitions of others that are none, or have become others."""

    topic_ids: frozenset[UUID]
    partitions: frozenset[tuple[UUID, int]]


class ClusterView:
    """The latest look at nodes, brokers and topics; listeners hear which topics are others, and what went."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._brokers: tuple[BrokerInfo, ...] = ()
        self._layouts: Layouts = {}
        self._listeners: list[Callable[[frozenset[str], Gone], None]] = []
        self._surroundings = Surroundings(matches=patterns.matches)
        self._reading: asyncio.Task[None] | None = None
        self._stale = False
        self._read_at = Instant(-REFRESH_MS)

    def on_topics_changed(self, listener: Callable[[frozenset[str], Gone], None]) -> None:
        """Call `listener` with the names of topics that changed and with what is gone, each time some did."""
        self._listeners.append(listener)

    def nodes(self) -> tuple[NodeInfo, ...]:
        """The live nodes, each with the number that it keeps (`runtime.nodes`)."""
        return tuple(NodeInfo(one.node_id, one.address) for one in self._node.live_nodes())

    def brokers(self) -> tuple[BrokerInfo, ...]:
        """The live brokers, where clients reach them."""
        return self._brokers

    @property
    def layouts(self) -> Layouts:
        """The topics; listeners have heard of each change up to this look."""
        return self._layouts

    def owner_of(self, group_id: str) -> NodeInfo | None:
        """The node that holds the lease of the group's shard; None if nobody does."""
        address = self._node.owner_address(shard_lane(shard_of(group_id)))
        if address is None:
            return None
        return next((one for one in self.nodes() if one.address == address), NodeInfo(-1, address))

    def surroundings(self) -> Surroundings:
        """What members are told of the cluster, and how patterns are matched."""
        nodes = self.nodes()
        if nodes != self._surroundings.nodes or self._brokers != self._surroundings.brokers:
            self._surroundings = Surroundings(nodes, self._brokers, patterns.matches)
        return self._surroundings

    def tick(self, now: Instant) -> None:
        """Read again when the last look is old."""
        if elapsed_ms(self._read_at, now) >= REFRESH_MS:
            self._read_at = now
            self.refresh()

    def refresh(self) -> None:
        """Read the rows again, soon; asked while a read is under way, once more after it."""
        self._stale = True
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="look at topics and brokers")

    async def _read(self) -> None:
        while self._stale:
            self._stale = False
            try:
                layouts, brokers = await self._node.query(_look)
            except ConnectionLost as problem:
                # The tick asks again; until then the older look holds.
                logger.info("look at topics and brokers: %s", problem)
                return
            self._brokers = brokers
            changed = _changed(self._layouts, layouts)
            gone = _gone(self._layouts, layouts)
            self._layouts = layouts
            if changed:
                for listener in self._listeners:
                    listener(changed, gone)


def _look(connection: Connection) -> tuple[Layouts, tuple[BrokerInfo, ...]]:
    brokers = (_broker_info(one) for one in catalog.live_brokers(connection))
    return catalog.layouts(connection), tuple(one for one in brokers if one is not None)


def _broker_info(broker: catalog.LiveBroker) -> BrokerInfo | None:
    host, _, port = broker.endpoints.get(CLIENT_LISTENER, "").rpartition(":")
    security = broker.endpoints.get(CLIENT_SECURITY, PLAINTEXT)
    return BrokerInfo(int(broker.broker_id), host, int(port), security) if host and port.isdigit() else None


def _changed(before: Layouts, after: Layouts) -> frozenset[str]:
    names: set[Any] = before.keys() | after.keys()
    return frozenset(str(name) for name in names if before.get(name) != after.get(name))


def _gone(before: Layouts, after: Layouts) -> Gone:
    known = {layout.topic_id: layout for layout in after.values()}
    topics: set[UUID] = set()
    partitions: set[tuple[UUID, int]] = set()
    for was in before.values():
        layout = known.get(was.topic_id)
        if layout is None:
            topics.add(was.topic_id)
        elif layout != was:
            numbers = set(range(layout.partition_count, was.partition_count))
            # They may have gone and come again between two looks.
            numbers.update(number for number, _ in set(layout.added_again) - set(was.added_again))
            partitions.update((was.topic_id, number) for number in numbers)
    return Gone(frozenset(topics), frozenset(partitions))
