"""DATABASE_URL names two servers, and the first is gone with its machine: one connection waits for it."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.utils import ConnectionHandler

from standalone.postgres import Postgres
from web import servers


@pytest.fixture
def gone() -> Iterator[socket.socket]:
    """Takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        yield server


def test_the_server_that_was_met_last_is_asked_first(
    fresh_database: str, postgres_server: Postgres, gone: socket.socket
) -> None:
    """Pages answered 503 for six seconds of each minute, when their connections had grown old."""
    dead, alive = gone.getsockname()[1], postgres_server.port
    told = {
        **connections.settings[DEFAULT_DB_ALIAS],
        "HOST": "127.0.0.1,127.0.0.1",
        "PORT": f"{dead},{alive}",
    }
    told["OPTIONS"] = {**told["OPTIONS"], "connect_timeout": 2}
    handler = ConnectionHandler({DEFAULT_DB_ALIAS: told})
    tried = 0
    for _ in range(3):
        connection = handler.create_connection(DEFAULT_DB_ALIAS)
        connection.connect()
        assert connection.connection.info.port == alive
        connection.close()
        gone.setblocking(False)
        while True:
            try:
                gone.accept()[0].close()
            except BlockingIOError:
                break
            tried += 1
    assert tried == 1


@pytest.mark.parametrize("port", ["5432", ""])
def test_one_port_is_that_of_all(port: str) -> None:
    """As libpq has it; and one server is left as it was said."""
    assert preferred("a,b", port, "b", 5432) == ("b,a", f"{port},{port}")
    assert preferred("a", port, "a", 5432) == ("a", port)
    assert preferred("a,b", "1,2", "elsewhere", 3) == ("a,b", "1,2")


def test_a_standby_that_was_met_is_not_asked_first() -> None:
    """Without target_session_attrs web stayed there when the primary was back, and could write nothing."""
    assert preferred("primary,standby", "1,2", "standby", 2, in_hot_standby="on") == (
        "primary,standby",
        "1,2",
    )


def test_servers_whose_addresses_are_named_keep_their_order() -> None:
    """The name of one was checked against the certificate at the address of the other."""
    assert preferred("a,b", "1,2", "b", 2, hostaddr="192.0.2.1,192.0.2.2") == ("a,b", "1,2")


def preferred(
    hosts: str, ports: str, met_host: str, met_port: int, in_hot_standby: str = "off", **options: str
) -> tuple[str, str]:
    """Hosts and ports as they are tried next."""
    place: dict[str, Any] = {"HOST": hosts, "PORT": ports, "OPTIONS": options}
    says = {"in_hot_standby": in_hot_standby}
    info = SimpleNamespace(host=met_host, port=met_port, parameter_status=says.get)
    met = SimpleNamespace(info=info)
    servers.prefer(connection=SimpleNamespace(settings_dict=place, connection=met))  # type: ignore[arg-type]
    return place["OPTIONS"].get("host", place["HOST"]), place["OPTIONS"].get("port", place["PORT"])
