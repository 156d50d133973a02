"""A node that reaches PostgreSQL and no broker leaves the controller to one that brokers reach."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.judging import LOOK_EVERY_MS
from runtime.making_way import HOLD_MS, SETTLE_MS
from standalone.children import free_ports
from standalone.redis import Redis
from tests.acceptance.cut_links import Cut, Proxies
from tests.integration.coordinator.control_plane import Process
from tests.integration.replication.cluster import BROKERS, Cluster

PARTITIONS = 3
LONG_LOOKS = 2 * (SETTLE_MS + HOLD_MS) // LOOK_EVERY_MS
"""So many looks are enough to make way twice."""


class Doors(Cluster):
    """The cluster, with a door before each node that can be cut."""

    def __init__(self, home: Path, database_url: str, redis: Redis, proxies: Proxies) -> None:
        super().__init__(home, database_url, redis)
        self._proxies = proxies

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
    doors.start(nodes=2)
    doors.create_topic("orders", PARTITIONS)
    first = doors.controller()
    proxies.cut(first, how)
    doors.await_true(lambda: doors.controller() not in ("", first), "the node makes way", 60)
    doors.await_true(doors.all_are_led, "every broker is back, and every partition is led", 60)
    second = doors.controller()
    doors.create_topic("clicks", PARTITIONS)
    assert not doors.nodes[first].ended
    proxies.mend()
    doors.wait_until_ready()
    assert doors.controller() == second


def test_the_side_with_more_brokers_has_the_controller(doors: Doors, proxies: Proxies) -> None:
    """Of three brokers first one, then two lose the controller: who hears two of them has it."""
    doors.start(nodes=2)
    doors.create_topic("orders", PARTITIONS)
    first = doors.controller()
    (other,) = (name for name in doors.nodes if name != first)
    proxies.cut(first, Cut.CLOSED, "broker-1")
    doors.await_true(lambda: doors.came_to(other) == {1}, "broker 1 comes to the other node", 60)
    until = doors.renewals_of(first) + LONG_LOOKS
    doors.await_true(lambda: doors.renewals_of(first) >= until, "the controller looks on", 60)
    assert doors.controller() == first
    assert doors.came_to(other) == {1}
    proxies.cut(first, Cut.CLOSED, "broker-2")
    doors.await_true(lambda: doors.controller() == other, "the node makes way", 60)
    doors.await_true(doors.all_are_led, "every broker is back, and every partition is led", 60)


def test_brokers_that_are_all_away_move_nothing(doors: Doors) -> None:
    doors.start(nodes=2)
    first = doors.controller()
    for broker in doors.brokers.values():
        broker.kill()
    doors.await_true(lambda: doors.live_brokers() == set(), "all brokers are fenced", 60)
    until = doors.renewals_of(first) + LONG_LOOKS
    doors.await_true(lambda: doors.renewals_of(first) >= until, "the controller looks on", 60)
    for broker_id in BROKERS:
        doors.start_broker(broker_id)
    doors.wait_until_ready()
    assert doors.controller() == first
