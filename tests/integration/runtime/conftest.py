"""This room starts counter nodes as processes of their own, and hears what they say."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from runtime import cluster
from runtime.postgres import PostgresLink, open_connection
from tests.conformance.counters import TABLES, Counter, CounterStore, read_journal, read_tally
from tests.integration.runtime.counter_node import LANES

BOUND_S = 120.0
ROOT = Path(__file__).parents[3]


def wait_for(condition: Callable[[], Any], text: str, bound_s: float = BOUND_S) -> Any:
    """What `condition` answers as soon as it is true; fails after a bound."""
    give_up_at = time.monotonic() + bound_s
    while not (answer := condition()):
        assert time.monotonic() < give_up_at, f"did not happen: {text}"
        time.sleep(0.02)
    return answer


class CounterNode:
    """One process; `heard` is what it said so far."""

    def __init__(self, name: str, failpoints: str = "") -> None:
        self.name = name
        self.heard: list[dict[str, Any]] = []
        environment = os.environ | {
            "MUSTER_TEST": "1",
            "MUSTER_FAILPOINTS": failpoints,
            "PYTHONPATH": str(ROOT),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.runtime.counter_node", name],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if not os.environ.get("MUSTER_SHOW") else None,
            text=True,
        )
        self._thread = threading.Thread(target=self._hear, daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.heard.append(json.loads(line))

    def ask(self, *words: object) -> None:
        """Write one line to it."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()

    def facts(self, name: str) -> list[Any]:
        """The values of one fact, in the order in which they were said."""
        return [heard[name] for heard in list(self.heard) if name in heard]

    def wait(self, name: str, value: Any = None, times: int = 1) -> None:
        """Return when it said this so often; who waits in vain is told what it said last."""
        try:
            wait_for(
                lambda: sum(value is None or fact == value for fact in self.facts(name)) >= times,
                f"{self.name} says {name}={value} {times} times",
            )
        except AssertionError as in_vain:
            in_vain.add_note(f"it said last: {self.heard[-20:]}")
            raise

    def wait_accepted(self) -> None:
        """Return when it accepted every lane."""
        wait_for(lambda: set(self.facts("accepted")) >= set(LANES), f"{self.name} accepts")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait for its end."""
        self.process.kill()
        self.end()

    def end(self) -> int:
        """Wait for its end."""
        code = self.process.wait(BOUND_S)
        self._thread.join(BOUND_S)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        return code


class Truth:
    """What the database says."""

    def __init__(self, url: str) -> None:
        self._link = PostgresLink(open_connection(url, "muster-test"))

    def counter(self, key: str) -> Counter:
        return self._link.call(lambda connection: CounterStore().load(connection, key))

    def tally(self) -> dict[str, int]:
        return self._link.call(read_tally)

    def journal(self, lane: str) -> list[tuple[int, str, list[Any]]]:
        return self._link.call(lambda connection: read_journal(connection, lane))

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._link.call(
            lambda connection: connection.execute(statement, values or None).fetchall()
        )
        return found

    def close(self) -> None:
        self._link.close()


@pytest.fixture
def truth(fresh_database: str) -> Iterator[Truth]:
    """A cluster with three leases and no node."""
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        cluster.initialise(connection, uuid.uuid4(), LANES)
        connection.execute(TABLES)
    made = Truth(fresh_database)
    yield made
    made.close()


@pytest.fixture
def start_node(truth: Truth) -> Iterator[Callable[..., CounterNode]]:
    """Start counter nodes; whatever still runs at the end is killed."""
    nodes: list[CounterNode] = []

    def start(name: str, failpoints: str = "") -> CounterNode:
        nodes.append(CounterNode(name, failpoints))
        return nodes[-1]

    yield start
    for node in nodes:
        if node.process.poll() is None:
            node.kill()
