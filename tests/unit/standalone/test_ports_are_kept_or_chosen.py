"""A stack listens where it listened before, or where it was asked to; a port that is taken is told."""

import socket
import sys
from collections.abc import Iterator

import pytest

from standalone import ports
from standalone.children import StartError, free_ports
from standalone.ports import Ports, as_before, asked_for


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_start_has_the_ports_of_the_start_before() -> None:
    first, moved = as_before({}, 2, 3)
    assert len(set(first.values())) == len(first) == len(ports.names(2, 3)) and moved == []
    assert as_before(first, 2, 3) == (first, [])


def test_who_comes_later_gets_another_port_and_the_rest_keep_theirs() -> None:
    first, _ = as_before({}, 1, 1)
    larger, moved = as_before(first, 2, 3)
    assert {name: larger[name] for name in first} == first and moved == []
    assert len(set(larger.values())) == len(larger)


def test_a_port_that_somebody_took_meanwhile_is_given_up_and_told(taken: int) -> None:
    first, _ = as_before({}, 1, 1)
    found, moved = as_before({**first, "web": taken}, 1, 1)
    assert found["web"] != taken and found["node-1"] == first["node-1"]
    assert moved == [f"web listens on {found['web']} now; {taken} is taken by somebody else"]


def test_ports_that_are_asked_for_follow_from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "why_taken", lambda port: "")
    found = Ports.of(asked_for(8000, 2, 2), 2, 2)
    assert (found.web, found.nodes) == (8000, (8001, 8002))
    assert found.bootstrap == "127.0.0.1:8010,127.0.0.1:8011"
    assert len(set(asked_for(8000, 9, 90).values())) == len(ports.names(9, 90))


def test_a_port_that_is_asked_for_and_taken_is_an_error(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever runs beside this test may listen on a port next to it.
    look = ports.why_taken
    monkeypatch.setattr(ports, "why_taken", lambda port: look(port) if port == taken else "")
    with pytest.raises(StartError, match=rf"web cannot listen on {taken} \(it is taken\)"):
        asked_for(taken, 1, 1)
    with pytest.raises(StartError, match=rf"node-1 cannot listen on {taken} \(it is taken\)"):
        asked_for(taken - 1, 1, 1)


def test_more_than_there_is_room_for_is_refused() -> None:
    with pytest.raises(StartError, match="room for 9 nodes and 90 brokers"):
        asked_for(8000, 10, 1)
    with pytest.raises(StartError, match="a stack has at most 1000"):
        as_before({}, 1, 400)


def test_a_port_whose_connections_ended_a_moment_ago_is_free() -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)) as server:
        client = socket.create_connection(("127.0.0.1", port))
        met, _ = server.accept()
        met.close()
        client.close()
    assert ports.why_taken(port) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="names without files are Linux's")
def test_a_port_that_was_just_chosen_is_left_to_whoever_chose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (chosen,) = free_ports(1)
    monkeypatch.setattr("standalone.children.FIRST_PORT", chosen)
    monkeypatch.setattr("standalone.children.LAST_PORT", chosen + 20)
    assert chosen not in free_ports(12)
