"""This room runs the controller's service without a database: a turn is taken when it is handed in."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from controller.configuration import ServiceSettings
from controller.core.state import ClusterRows
from controller.links import BrokerLink
from controller.service import ControllerService
from controller.subject import Cluster
from muster.kernel.instants import Instant
from muster.kernel.topology import Unread
from muster.messages.link.callers import CallerRow
from muster.messages.link.from_broker import BrokerHello
from muster.messages.link.rows import BrokerRow, PartitionRow, TopicRow
from runtime.ports import ConnectionLost, LiveNode

ORDERS = UUID(int=1)


class HereAndNow:
    """The node and the lane of one service: a turn is taken when it is handed in; no database."""

    name, epoch, frozen, node = "controller", 7, False, "node-1"

    def __init__(self) -> None:
        brokers = [BrokerRow(b, 1, "a", {}) for b in (1, 2)]
        topic = TopicRow(ORDERS, "orders", 1, 2)
        row = PartitionRow(ORDERS, 0, (1, 2), 1, 1, (1, 2), 5)
        self.rows = ClusterRows.of("a-cluster", 5, 1_000, brokers, [topic], [row])
        self.time = Instant(100_000)
        self.recorded: list[Any] = []
        self.nodes: tuple[LiveNode, ...] = (LiveNode("a-run", "node-1", "ws://one"),)
        self.held: dict[str, LiveNode] = {}
        self.kafka_callers: tuple[CallerRow, ...] | None = None
        self.kafka_callers_at = Instant(0)
        self.unread: list[Unread] = []

    def now(self) -> Instant:
        return self.time

    def wake(self, name: str, key: str = "") -> None: ...

    def live_nodes(self) -> tuple[LiveNode, ...]:
        return self.nodes

    def owners(self) -> Mapping[str, LiveNode]:
        return self.held

    def find_unread(self, connection: Any, topic: str, first: int) -> list[Unread]:
        return [one for one in self.unread if one.partition >= first]

    async def find_caller(self, name: str, address: str) -> bool:
        return False

    async def query(self, function: Callable[[Any], Any]) -> Any:
        raise ConnectionLost("no database")

    def hand_in(self, subject: Cluster, key: str, *events: Any) -> None:
        state = subject.cached(key)
        if state is None:
            state, revived = subject.revive(key, self.rows, self.time)
            subject.settle(key, state, revived)
        decision = subject.decide(key, state, events, self.time)
        self.recorded += decision.records
        subject.settle(key, state, decision)

    async def submit_turn(self, subject: Cluster, key: str, *events: Any) -> None:
        self.hand_in(subject, key, *events)


async def linked(here: HereAndNow) -> tuple[ControllerService, dict[int, BrokerLink], asyncio.Queue[str]]:
    """A controller with both brokers linked, and what is said on the link of broker 1."""
    service = ControllerService(here, ServiceSettings(), here.find_unread)  # type: ignore[arg-type]
    await service.accept(here)  # type: ignore[arg-type]
    links = {}
    for broker_id in (1, 2):
        links[broker_id] = BrokerLink(broker_id, "127.0.0.1:1")
        hello = BrokerHello(broker_id=broker_id, incarnation="a", endpoints={})
        service.link_opened(links[broker_id], hello)
    said: asyncio.Queue[str] = asyncio.Queue()

    async def send(message: Any) -> None:
        said.put_nowait(message["text"])

    asyncio.get_running_loop().create_task(links[1].write(send))
    here.recorded.clear()
    return service, links, said
