"""`make up` says what it waits for while there is time to do something about it."""

import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from standalone import readiness
from standalone.processes import Child
from standalone.supervision import State

SET_BACK = "DATABASE_SET_BACK: run adopt_restore"


class _Door(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_ready = self.path == "/web" or self.server.is_lifted  # type: ignore[attr-defined]
        body = b"ready" if is_ready else SET_BACK.encode()
        self.send_response(200 if is_ready else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


@pytest.fixture
def doors() -> Iterator[HTTPServer]:
    """Web, which is ready, and brokers that are once the database was lifted."""
    with HTTPServer(("127.0.0.1", 0), _Door) as server:
        server.is_lifted = False  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_whoever_can_end_the_wait_hears_of_it_before_it_is_over(
    doors: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "TOLD_EVERY_S", 0.0)
    names = ("web", "broker-1", "broker-2")
    children = [
        Child(
            name, None, (), Path(name), title=name, ready_url=f"http://127.0.0.1:{doors.server_port}/{name}"
        )
        for name in names
    ]
    told: list[str] = []

    def lift(answers: Mapping[str, str]) -> None:
        told.append(readiness.waits(answers))
        doors.is_lifted = True  # type: ignore[attr-defined]

    ready: list[str] = []
    running = {name: State(name, True, 1, "") for name in names}
    readiness.wait_for_doors(children, lambda: running, ready.append, lift)
    assert ready == list(names)
    assert told == [f"waiting for broker-1 and 1 more, 120 s at most; broker-1: it answers 503: {SET_BACK}"]
