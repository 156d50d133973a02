"""A process that cannot listen says on which address, by the setting that names it, and ends."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT


@pytest.fixture
def taken() -> Iterator[str]:
    """An address on which somebody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield f"127.0.0.1:{held.getsockname()[1]}"


def end_of(command: list[str], given: dict[str, str]) -> subprocess.CompletedProcess[str]:
    shell = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=shell | given, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    "name", ["MUSTER_BROKER_LISTEN", "MUSTER_BROKER_REPLICATION_LISTEN", "MUSTER_BROKER_HTTP_LISTEN"]
)
def test_a_broker_ends_with_4(name: str, taken: str, tmp_path: Path) -> None:
    given = {
        "MUSTER_BROKER_ID": "1",
        "MUSTER_BROKER_DATA": str(tmp_path),
        "MUSTER_BROKER_LISTEN": "127.0.0.1:0",
        "MUSTER_NODES": "ws://127.0.0.1:1",
        "MUSTER_BROKER_SECRET": "s3cret",
    }
    ended = end_of(["-m", "broker"], given | {name: taken})
    assert ended.returncode == 4
    said = f"broker 1: {name}={taken} cannot be listened on: Address already in use."
    assert ended.stderr.splitlines()[-1] == said


@pytest.mark.parametrize("name", ["MUSTER_NODE_LISTEN", "MUSTER_NODE_KAFKA_LISTEN"])
def test_a_node_says_it_in_a_line(name: str, taken: str, fresh_database: str) -> None:
    given = {"DATABASE_URL": fresh_database, "MUSTER_NODE_LISTEN": "127.0.0.1:0"}
    assert end_of(["manage.py", "initialise_cluster"], given).returncode == 0
    ended = end_of(["manage.py", "run_node"], given | {name: taken})
    assert ended.returncode == 1
    said = f"CommandError: {name}={taken} cannot be listened on: Address already in use."
    assert ended.stderr.splitlines()[-1] == said


@pytest.mark.parametrize(
    ("listen", "reason"), [("", "Address already in use"), ("muster.invalid:80", "not known")]
)
def test_the_pages_say_it_in_a_line(listen: str, reason: str, taken: str) -> None:
    given = {"MUSTER_WEB_LISTEN": listen or taken, "SECRET_KEY": "k" * 64}
    ended = end_of(["manage.py", "run_web"], given)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"CommandError: MUSTER_WEB_LISTEN={listen or taken} cannot be listened on: ")
    assert reason in last or "resolution" in last
