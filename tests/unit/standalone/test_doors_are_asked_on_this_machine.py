"""A proxy that the environment names does not stand between a stack and its own doors."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from docker.healthy import main as healthy
from standalone.demo.rest import Rest
from standalone.readiness import ask, look


class _Door(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"items": [], "next": null}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A door that is ready, and a proxy at which nobody answers."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with HTTPServer(("127.0.0.1", 0), _Door) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_ready_door_is_found_ready(door: str) -> None:
    assert ask(door) == ""
    assert look(door) == (True, '{"items": [], "next": null}')


def test_a_container_finds_itself_healthy(door: str) -> None:
    assert healthy(door) == 0


def test_the_demo_reaches_rest(door: str) -> None:
    rest = Rest(door, "token")
    assert rest.partitions("flights") == []
    rest.close()
