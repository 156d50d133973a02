"""This room builds small clusters for the tests of the controller's core."""

from collections.abc import Sequence
from uuid import UUID

from controller.core.draft import ClusterDecision
from controller.core.events import Event, Heard, Hello, Say, TookOver
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterRows, ClusterState
from controller.core.turn import decide
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import BrokerHello, FromBroker
from muster.messages.link.rows import BrokerRow, PartitionRow, TopicRow
from muster.messages.link.to_broker import ToBroker

ORDERS = UUID(int=10)
FRESH = UUID(int=20)
START = Instant(1_000)


def hello(broker_id: int, run: str = "a", **stated: object) -> Hello:
    """The hello of a broker's run on a link of its own."""
    frame = BrokerHello(
        broker_id=broker_id,
        incarnation=run,
        endpoints={"client": f"127.0.0.1:{9000 + broker_id}"},
        **stated,  # type: ignore[arg-type]
    )
    return Hello(f"link-{broker_id}{run}", frame)


def heard(link: str, frame: FromBroker) -> Heard:
    """A later frame of a link."""
    return Heard(link, frame, FRESH)


def row(
    number: int, assigned: tuple[int, ...], leader: int, isr: tuple[int, ...], epoch: int = 1
) -> PartitionRow:
    return PartitionRow(ORDERS, number, assigned, leader, epoch, isr, 5)


class Cluster:
    """A controller that owns brokers 1 to n, all of them linked, and partitions of `orders`."""

    def __init__(
        self,
        partitions: Sequence[PartitionRow] = (),
        brokers: int = 3,
        configs: dict[str, str] | None = None,
        settings: ControllerSettings | None = None,
        racks: dict[int, str] | None = None,
    ) -> None:
        self.settings = settings or ControllerSettings()
        registered = [BrokerRow(b, 1, "a", {}, (racks or {}).get(b, "")) for b in range(1, brokers + 1)]
        topics = [TopicRow(ORDERS, "orders", len(partitions), 3, configs or {})] if partitions else []
        self.state = ClusterState(ClusterRows.of("cluster-1", 5, 1_000, registered, topics, partitions))
        self.now = START
        self.turn(TookOver(7))
        for b in range(1, brokers + 1):
            self.turn(hello(b, rack=(racks or {}).get(b, "")))

    def turn(self, *events: Event) -> ClusterDecision:
        """One turn, committed."""
        decision = decide(self.state, events, self.now, self.settings)
        self.state = decision.state
        return decision

    def later(self, ms: int) -> None:
        self.now = Instant(self.now + ms)

    def partition(self, number: int = 0) -> PartitionRow:
        return self.state.rows.partitions[ORDERS, number]


def said(decision: ClusterDecision, link: str) -> list[ToBroker]:
    """All frames to one link, in order."""
    sayings = (*decision.replies, *decision.commands)
    return [one.frame for one in sayings if isinstance(one, Say) and one.link == link]
