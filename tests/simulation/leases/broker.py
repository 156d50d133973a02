"""This room is a simulated broker: its real link to the controller, and a process that obeys without logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from broker.link import ControllerLink
from broker.settings import Address, BrokerSettings
from muster.messages.link.from_broker import BrokerHello, BrokerPing
from muster.messages.link.protocol import LINK_PROTOCOL
from muster.messages.link.rows import REPLICATION_LISTENER
from muster.messages.link.to_broker import Changes, HelloAccepted, Nodes, SnapshotChunk, ToBroker
from tests.simulation.looping import SimulatedProcess

if TYPE_CHECKING:
    from tests.simulation.leases.cluster import Cluster
    from tests.simulation.leases.wires import Wire

NOWHERE = Address("127.0.0.1", 1)


class Broker(SimulatedProcess):
    """One broker process (`broker.link.Hearer`)."""

    def __init__(self, cluster: Cluster, broker_id: int, nodes: tuple[str, ...], process: int) -> None:
        super().__init__(cluster.world)
        self.cluster, self.world = cluster, cluster.world
        self.broker_id = broker_id
        self.incarnation = f"{broker_id}/{process}"
        self.is_reachable = True
        """Its machine has power: whoever knocks there hears that nobody listens any more."""
        self.secret = f"secret-{broker_id}"
        self.wires: list[Wire] = []
        self._cluster_id = ""
        self._applied = 0
        self._broker_epoch = 0
        interval_ms = cluster.heartbeat_interval_ms
        settings = BrokerSettings(
            broker_id=broker_id,
            listen=NOWHERE,
            replication_listen=NOWHERE,
            data=Path("nowhere"),
            nodes=nodes,
            secret=self.secret,
            heartbeat_interval_ms=interval_ms,
        )
        self.link = ControllerLink(settings, self)

    def begin(self) -> None:
        """Look for the controller."""
        self.loop.perform(self._begin)

    def _begin(self) -> None:
        task = self.loop.create_task(self.link.run(), name="link")
        task.add_done_callback(lambda task: self.cluster.link_ended(self, task))

    # -- Hearer -----------------------------------------------------------------------------

    def hello(self) -> BrokerHello:
        return BrokerHello(
            broker_id=self.broker_id,
            incarnation=self.incarnation,
            endpoints={REPLICATION_LISTENER: f"127.0.0.1:{9_000 + self.broker_id}"},
            cluster_id=self._cluster_id,
            broker_epoch=self._broker_epoch,
            metadata_version=self._applied,
            highest_broker_epoch=self._broker_epoch,
            highest_metadata_version=self._applied,
            protocol=LINK_PROTOCOL,
        )

    def accepted(self, frame: HelloAccepted) -> None:
        self._cluster_id, self._broker_epoch = frame.cluster_id, frame.broker_epoch

    async def obey(self, frame: ToBroker) -> None:
        match frame:
            case Nodes():
                self.link.learn_nodes(tuple(node.address for node in frame.nodes if node.address))
                self.cluster.note_reach()
            case SnapshotChunk(last=True) | Changes(complete=True):
                self._applied = frame.metadata_version
                self.link.ping_soon()
            case _:
                pass

    def ping(self, number: int) -> BrokerPing:
        return BrokerPing(number=number, metadata_version=self._applied)

    def link_lost(self) -> None:
        """Nothing is kept of it."""

    # -- faults -----------------------------------------------------------------------------

    def end(self, *, is_powered: bool) -> None:
        """kill −9, or no power."""
        self.status, self.is_reachable = "over", is_powered
        for wire in self.wires:
            if is_powered:
                wire.abort()
            else:
                wire.vanish()
        self.loop.end()
