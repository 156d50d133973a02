"""This room is the stage of the replication scenarios: three brokers, one partition, no chance."""

from uuid import UUID

from broker.core.replica import Replica
from muster.messages.link.from_broker import BrokerHello
from muster.messages.link.rows import PartitionRow
from tests.simulation.replication.broker_process import ALWAYS_LAGS, NEVER_LAGS
from tests.simulation.replication.controller_process import Link
from tests.simulation.replication.world import TOPIC, World

ORDERS_0: tuple[UUID, int] = (TOPIC, 0)


class Stage:
    """Stage directions for a World: each line happens, and then every invariant is looked at."""

    def __init__(
        self,
        assigned: tuple[int, ...] = (1, 2, 3),
        min_insync: int = 1,
        brokers: int = 3,
        is_lossy: bool = False,
    ) -> None:
        self.world = World([assigned], brokers=brokers, min_insync=min_insync, values=20, is_lossy=is_lossy)

    # ------------------------------------------------------------------------------ who is there

    @property
    def row(self) -> PartitionRow:
        return self.world.rows().partitions[ORDERS_0]

    def replica(self, b: int) -> Replica:
        return self.world.brokers[b].replicas[ORDERS_0]

    def values(self, b: int) -> list[int]:
        """What broker b has stored."""
        log = self.world.brokers[b].logs.get(ORDERS_0)
        return [record.value for record in log.records] if log is not None else []

    @property
    def committed(self) -> list[int]:
        return [record.value for record in self.world.committed[ORDERS_0]]

    # ------------------------------------------------------------------------------ data

    def produce(self, leader: int) -> None:
        self.world.do(("append", leader, ORDERS_0))

    def fetch(self, follower: int, fate: str = "now") -> None:
        """One fetch; fate: now, lost (the answer), slow (the answer waits for `receive`)."""
        self.world.do(("fetch", follower, ORDERS_0, fate))

    def send_late(self, follower: int) -> None:
        self.world.do(("late", follower, ORDERS_0))

    def late_fetch_arrives(self) -> None:
        self.world.do(("late_arrives", 0))

    def receive(self, follower: int) -> None:
        self.world.do(("receive", follower, 0))

    def commit(self, leader: int, *followers: int) -> None:
        """Produce one record and let each of `followers` fetch until it is committed and known to be."""
        self.produce(leader)
        for _ in range(3):
            for follower in followers:
                self.fetch(follower)

    # ------------------------------------------------------------------------------ controller and links

    def hello(self, b: int) -> None:
        """b opens a link; the controller has not read its hello yet."""
        self.world.do(("hello", b))

    def join(self, b: int) -> None:
        """b opens a link, is welcomed, and obeys its snapshot."""
        self.hello(b)
        self.controller_reads(b)
        self.heed(b)

    def twin_says_hello(self, b: int) -> None:
        """Another process with b's id and an empty folder opens a link; its hello is read."""
        link = Link(f"{b}.twin.{len(self.world.links)}", b, self.world.controller)
        self.world.controller.links[link.link_id] = link
        self.world.links.append(link)
        link.say_to_controller(BrokerHello(broker_id=b, incarnation="twin", endpoints={}, lost_tail=True))
        self.world.do(("control", len(self.world.links) - 1))

    def controller_reads(self, b: int) -> None:
        """Everything on b's links, oldest link first, is read by the controllers at their other end."""
        while waiting := [
            i for i, link in enumerate(self.world.links) if link.broker_id == b and link.to_controller
        ]:
            self.world.do(("control", waiting[0]))

    def controller_reads_newest_link(self, b: int) -> None:
        """Only what is on the newest link of b; older links keep what is in their buffers."""
        index = max(i for i, link in enumerate(self.world.links) if link.broker_id == b)
        while self.world.links[index].to_controller:
            self.world.do(("control", index))

    def heed(self, *brokers: int) -> None:
        """Each broker obeys everything that is in flight to it."""
        for b in brokers:
            broker = self.world.brokers[b]
            while broker.link is not None and broker.link.to_broker:
                self.world.do(("heed", b))

    def propose_drop(self, leader: int) -> None:
        """The leader finds the follower that lags most."""
        self.world.do(("propose", leader, ORDERS_0, ALWAYS_LAGS))

    def propose_add(self, leader: int) -> None:
        self.world.do(("propose", leader, ORDERS_0, NEVER_LAGS))

    def shrink_to(self, leader: int, *members: int) -> None:
        """Drop who lags, one proposal after the other, until only `members`, who do not lag, are in sync."""
        for _ in range(len(self.row.isr) - len(members)):
            for member in members:
                if member != leader:
                    self.fetch(member)
            self.propose_drop(leader)
            self.controller_reads(leader)
            self.heed(*self._up())
        assert set(self.row.isr) == set(members)

    def session_over(self, b: int) -> None:
        self.world.do(("expire_slow", b))

    def takeover(self) -> None:
        self.world.do(("takeover",))

    def hello_to_the_old_controller(self, b: int) -> None:
        self.world.do(("hello_zombie", b))

    def move(self, b: int) -> None:
        """An operator makes b the leader."""
        self.world.do(("move", b, ORDERS_0))

    # ------------------------------------------------------------------------------ fate

    def kill(self, b: int) -> None:
        self.world.do(("kill", b))

    def start(self, b: int) -> None:
        self.world.do(("start", b))

    def machine_crash(self, b: int, kept: int = 0) -> None:
        """b's machine loses everything behind its first `kept` records, and its process."""
        self.world.brokers[b].crash_machine(lambda log: kept)

    def break_link(self, b: int) -> None:
        self.world.do(("break", b))

    def _up(self) -> list[int]:
        return [b for b, broker in self.world.brokers.items() if broker.up]
