"""Brokers stay heard while the controller's rows are not in its cache: the database was away."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

from controller.configuration import ServiceSettings
from controller.core.events import TimePassed
from controller.core.state import ClusterRows
from controller.links import BrokerLink
from controller.service import ControllerService
from controller.subject import CLUSTER, Cluster
from muster.kernel.instants import Instant
from muster.messages import codec
from muster.messages.link.from_broker import BrokerHello, BrokerPing
from muster.messages.link.rows import BrokerRow, NodeRow, PartitionRow, TopicRow
from muster.messages.link.to_broker import BrokerPingAnswer
from runtime.ports import ConnectionLost, LiveNode

ORDERS = UUID(int=1)


class HereAndNow:
    """The node and the lane of one service: a turn is taken when it is handed in; no database."""

    name, epoch, frozen = "controller", 7, False

    def __init__(self) -> None:
        brokers = [BrokerRow(b, 1, "a", {}) for b in (1, 2)]
        topic = TopicRow(ORDERS, "orders", 1, 2)
        row = PartitionRow(ORDERS, 0, (1, 2), 1, 1, (1, 2), 5)
        self.rows = ClusterRows.of("a-cluster", 5, 1_000, brokers, [topic], [row])
        self.time = Instant(100_000)
        self.recorded: list[Any] = []

    def now(self) -> Instant:
        return self.time

    def wake(self, name: str, key: str = "") -> None: ...

    def live_nodes(self) -> tuple[LiveNode, ...]:
        return (LiveNode("a-run", "node-1", "ws://one"),)

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
    service = ControllerService(here, ServiceSettings())  # type: ignore[arg-type]
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


async def test_an_outage_that_empties_the_cache_fences_nobody() -> None:
    here = HereAndNow()
    service, links, _ = await linked(here)
    service.cluster.drop(CLUSTER)
    here.time = Instant(here.time + 20_000)
    service.thaw(20_000)
    here.hand_in(service.cluster, CLUSTER, TimePassed())
    assert here.recorded == []
    links[1].hang_up("the end")


async def test_pings_count_and_are_answered_while_rows_are_loaded_again() -> None:
    here = HereAndNow()
    service, links, said = await linked(here)
    service.cluster.drop(CLUSTER)
    here.time = Instant(here.time + 8_000)
    for link in links.values():
        service.link_heard(link, BrokerPing(number=4, metadata_version=5))
    here.time = Instant(here.time + 8_000)
    here.hand_in(service.cluster, CLUSTER, TimePassed())
    assert here.recorded == []
    async with asyncio.timeout(5):
        while True:
            frame = codec.decode_to_broker(await said.get())
            if isinstance(frame, BrokerPingAnswer):
                break
    assert frame.number == 4
    assert frame.nodes == (NodeRow("node-1", "ws://one"),)
    links[1].hang_up("the end")
