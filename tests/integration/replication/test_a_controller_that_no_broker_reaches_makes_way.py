"""A node that reaches PostgreSQL and no broker leaves the controller to one that brokers reach."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.judging import LOOK_EVERY_MS
from runtime.making_way import HOLD_MS, SETTLE_MS
from runtime.ports import CONTROLLER_LANE
from runtime.sharing import weight
from standalone.children import free_ports
from standalone.redis import Redis
from tests.acceptance.cut_links import Cut, Proxies
from tests.integration.coordinator.control_plane import Process
from tests.integration.replication.cluster import BROKERS, Cluster

PARTITIONS = 3
FIRST, OTHER = sorted(("node-1", "node-2"), key=lambda name: weight(name, CONTROLLER_LANE), reverse=True)
"""Who is to be the controller, so that it moves for no other reason: to its best node it goes when all is
quiet, and at once when no broker is linked.
"""
LONG_LOOKS = 2 * (SETTLE_MS + HOLD_MS) // LOOK_EVERY_MS
"""So many looks are enough to make way twice."""


class Doors(Cluster):
    """The cluster, with a door before each node that can be cut."""

    def __init__(self, home: Path, database_url: str, redis: Redis, proxies: Proxies) -> None:
        super().__init__(home, database_url, redis)
        self._proxies = proxies

    def start_all(self) -> None:
        """Two nodes, brokers when FIRST is the controller, and a topic."""
        self.start(brokers=(), nodes=2)
        self.await_true(lambda: self.controller() == FIRST, "the best node is the controller")
        for broker_id in BROKERS:
            self.start_broker(broker_id)
        self.wait_until_ready()
        self.create_topic("orders", PARTITIONS)

    def start_node(self, name: str = "node-1", **settings: str) -> Process:
        (port,) = free_ports(1)
        address = f"ws://127.0.0.1:{self._proxies.open(name, port)}"
        listens = {"MUSTER_NODE_LISTEN": f"127.0.0.1:{port}", "MUSTER_NODE_ADDRESS": address}
        process = super().start_node(name, **listens, **settings)
        self.addresses[name] = address
        return process

    def came_to(self, name: str) -> set[int]:
        """The brokers that came to this node of late, as it tells itself."""
        ((came,),) = self.query("SELECT came FROM node_session WHERE node = %s AND NOT ended", name)
        assert isinstance(came, list)
        return set(came)

    def made_way(self) -> set[str]:
        """Nodes that left the controller to another, as they tell themselves."""
        rows = self.query("SELECT node FROM node_session WHERE made_way_for <> '' AND NOT ended")
        return {str(node) for (node,) in rows}

    def await_long_looks(self) -> None:
        """Return when the controller has looked often enough to make way twice."""
        until = self.renewals_of(FIRST) + LONG_LOOKS
        self.await_true(lambda: self.renewals_of(FIRST) >= until, "the controller looks on")

    def renewals_of(self, name: str) -> int:
        ((renewals,),) = self.query("SELECT renewals FROM node_session WHERE node = %s AND NOT ended", name)
        return int(str(renewals))

    def all_are_led(self) -> bool:
        return self.live_brokers() == set(BROKERS) and -1 not in self.leaders("orders").values()


@pytest.fixture
def proxies() -> Iterator[Proxies]:
    with Proxies() as made:
        yield made


@pytest.fixture
def doors(tmp_path: Path, fresh_database: str, redis_server: Redis, proxies: Proxies) -> Iterator[Doors]:
    made = Doors(tmp_path / "cluster", fresh_database, redis_server, proxies)
    yield made
    made.stop()


@pytest.mark.parametrize("how", Cut, ids=lambda how: how.name.lower())
def test_another_node_is_the_controller_and_all_is_led(doors: Doors, proxies: Proxies, how: Cut) -> None:
    doors.start_all()
    proxies.cut(FIRST, how)
    doors.await_true(lambda: doors.controller() == OTHER, "the node makes way")
    doors.await_true(doors.all_are_led, "every broker is back, and every partition is led")
    doors.create_topic("clicks", PARTITIONS)
    assert not doors.nodes[FIRST].ended
    assert doors.made_way() == {FIRST}
    proxies.mend()
    doors.wait_until_ready()
    assert doors.controller() == OTHER


def test_the_side_with_more_brokers_has_the_controller(doors: Doors, proxies: Proxies) -> None:
    """Of three brokers first one, then two lose the controller: who hears two of them has it."""
    doors.start_all()
    proxies.cut(FIRST, Cut.CLOSED, "broker-1")
    doors.await_true(lambda: doors.came_to(OTHER) == {1}, "broker 1 comes to the other node")
    doors.await_long_looks()
    doors.await_true(lambda: doors.came_to(OTHER) == {1}, "broker 1 comes there still")
    assert doors.controller() == FIRST
    proxies.cut(FIRST, Cut.CLOSED, "broker-2")
    doors.await_true(lambda: doors.controller() == OTHER, "the node makes way")
    doors.await_true(doors.all_are_led, "every broker is back, and every partition is led")
    assert doors.made_way() == {FIRST}


def test_brokers_that_are_all_away_move_nothing(doors: Doors) -> None:
    doors.start_all()
    for broker in doors.brokers.values():
        broker.kill()
    doors.await_true(lambda: doors.live_brokers() == set(), "all brokers are fenced")
    doors.await_long_looks()
    for broker_id in BROKERS:
        doors.start_broker(broker_id)
    doors.wait_until_ready()
    assert doors.controller() == FIRST
    assert doors.made_way() == set()
