"""A door holds fewer connections than the process may open files; those that say nothing make room first."""

import contextlib
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OPEN_FILES = 400
"""So few that a listener holds 172 connections; a process of the house raises its soft limit if it can."""

SERVE = f"""
import asyncio, logging, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (200, {OPEN_FILES}))
import structlog, uvicorn
from access.bounded_http import bounded
from kafkaserver import open_files
logging.basicConfig()
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
open_files.allow_many_files()

async def alive(scope, receive, send):
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    await send({{"type": "http.response.body", "body": b"alive"}})

async def main():
    config = uvicorn.Config(alive, port=0, http=bounded(int(sys.argv[1])), lifespan="off", log_config=None,
                            backlog=open_files.backlog(), access_log=False)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await serving

asyncio.run(main())
"""


OF_ONE_ADDRESS = 3


@pytest.fixture
def port(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """A server that may open few files; what it complains of is read at the end.

    As many connections of one address may be half open as the test's parameter says, 0: any number.
    """
    said = tmp_path / "stderr"
    with said.open("wb") as stderr:
        command = [sys.executable, "-c", SERVE, str(getattr(request, "param", 0))]
        server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True)
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.terminate()
        server.communicate(timeout=20)
    assert "Traceback" not in said.read_text()
    assert "out of system resource" not in said.read_text()


def asked(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as one:
        one.sendall(b"GET /livez HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        heard = b""
        while some := one.recv(4096):
            heard += some
    return heard


def test_whoever_says_nothing_makes_room_for_whoever_asks(port: int) -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 2 * OPEN_FILES
    with contextlib.ExitStack() as silent:
        for _ in range(OPEN_FILES // 8):
            for _ in range(10):
                silent.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            assert b"alive" in asked(port)


@pytest.mark.parametrize("port", [OF_ONE_ADDRESS], indirect=True)
def test_of_one_address_the_oldest_half_request_makes_room(port: int) -> None:
    with contextlib.ExitStack() as silent:
        first, *_ = [
            silent.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            for _ in range(OF_ONE_ADDRESS + 1)
        ]
        with contextlib.suppress(ConnectionResetError):
            assert first.recv(1) == b""
        assert b"alive" in asked(port)
