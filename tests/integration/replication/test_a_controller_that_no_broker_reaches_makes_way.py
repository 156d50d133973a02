"""A node that reaches PostgreSQL and no broker leaves the controller to one that brokers reach."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from standalone.children import free_ports
from standalone.redis import Redis
from tests.acceptance.cut_links import Cut, Proxies
from tests.integration.coordinator.control_plane import Process
from tests.integration.replication.cluster import BROKERS, Cluster

PARTITIONS = 3


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
