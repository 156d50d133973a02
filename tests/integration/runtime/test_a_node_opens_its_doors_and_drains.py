"""A whole node: ready when every lane is accepted, probes open, metrics by token, gone soon after SIGTERM."""

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from kafkaserver.version import own_version
from standalone.children import free_ports
from tests.integration.runtime.conftest import ROOT, Truth, wait_for

DRAIN_BOUND_S = 60


def ask(port: int, path: str, token: str = "") -> tuple[int, str]:
    """Status and body; 0: nobody answers."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
    except OSError:
        return 0, ""


def manage(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout.strip()


@pytest.fixture
def node(fresh_database: str, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    [port] = free_ports(1)
    manage("initialise_cluster")
    environment = os.environ | {"MUSTER_NODE_NAME": "node-1", "MUSTER_NODE_LISTEN": f"127.0.0.1:{port}"}
    with (tmp_path / "node.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "run_node"], cwd=ROOT, env=environment, stdout=log, stderr=log
        )
    yield process, port
    if process.poll() is None:
        process.kill()
        process.wait(30)


def test_a_node_from_its_first_probe_to_its_last(
    node: tuple[subprocess.Popen[bytes], int], fresh_database: str
) -> None:
    process, port = node
    token = manage("create_token", "watcher", "--role", "viewer").split()[-1]
    wait_for(lambda: ask(port, "/readyz")[0] == 200, "the node is ready")
    truth = Truth(fresh_database)
    assert truth.rows("SELECT count(*) FROM lease WHERE run IS NOT NULL") == [(65,)]

    assert ask(port, "/livez") == (200, "alive\n")
    assert re.fullmatch(r"ready, (\d+ compiled modules|plain Python: .+)\n", ask(port, "/readyz")[1])
    assert ask(port, "/metrics")[0] == 401
    assert ask(port, "/metrics", "mst_nobody_knows")[0] == 401
    wait_for(lambda: ask(port, "/metrics", token)[0] == 200, "the new token is known")
    # Told with the next look at the leases, which may come after the last of them was accepted.
    wait_for(lambda: "muster_leases_held 65.0" in ask(port, "/metrics", token)[1], "its leases are counted")
    assert f'muster_build_info{{version="{own_version()}"}} 1.0' in ask(port, "/metrics", token)[1]
    assert ask(port, "/admin/")[0] == 404

    with psycopg.connect(fresh_database) as somebody:
        somebody.execute("LOCK TABLE node_session")
        # Whoever asks is a stranger: nothing is said of the database but that.
        why = r"503 frozen: (renewals fail|the database has not answered for \d+ ms)\n"
        wait_for(lambda: re.fullmatch(why, "{} {}".format(*ask(port, "/readyz"))), "it says why it is frozen")
    wait_for(lambda: ask(port, "/readyz")[0] == 200, "the node is ready again")

    process.send_signal(signal.SIGTERM)
    assert process.wait(DRAIN_BOUND_S) == 0
    assert truth.rows("SELECT count(*) FROM lease WHERE run IS NOT NULL") == [(0,)]
    assert truth.rows("SELECT count(*) FROM node_session WHERE NOT ended") == [(0,)]
    truth.close()


def test_a_node_refuses_a_database_without_a_cluster(fresh_database: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "run_node"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "initialise_cluster" in done.stderr
