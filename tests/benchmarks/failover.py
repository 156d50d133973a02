"""This room measures how long SDK members are without a coordinator when their node is killed, or hangs.

Members of 50 groups on two nodes; one node gets SIGKILL, or SIGSTOP. The clock runs until each member is
registered at the other node, as the members themselves see it, in processes of their own.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from muster.client.conversation import Conversation
from muster.client.core.session import Stage
from muster.client.core.wishes import Wishes
from muster.client.fetching import FetchOptions
from muster.messages.member import TopicCount
from tests.benchmarks.planes import bench_plane
from tests.benchmarks.raw_member import print_json
from tests.integration.coordinator.control_plane import ROOT, ControlPlane, Process, eventually

GROUPS = 50
CLIENT_PROCESSES = 2
SESSION_TIMEOUT_MS = 10_000
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.01


async def _be_members(nodes: list[str], first: int, count: int) -> None:
    conversations = []
    for number in range(first, first + count):
        wishes = Wishes(
            f"group-{number % GROUPS}",
            f"member-{number}",
            f"{number:064}",
            (TopicCount("nothing"),),
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        conversations.append(Conversation(wishes, nodes, os.environ["MUSTER_TOKEN"], FetchOptions("bench")))
    tasks = [asyncio.create_task(one.run()) for one in conversations]
    while not all(_address(one) for one in conversations):
        await asyncio.sleep(LOOK_EVERY_S)
    print_json({"registered": count})
    lost = msgspec.json.decode(await asyncio.to_thread(sys.stdin.readline))
    away = [one for one in conversations if _address(one) == lost]
    print_json({"of the node": len(away)})
    back: list[float] = []
    while away:
        await asyncio.sleep(LOOK_EVERY_S)
        now = time.monotonic()
        back += [now for one in away if _address(one) not in ("", lost)]
        away = [one for one in away if _address(one) in ("", lost)]
    print_json(back)
    for task in tasks:
        task.cancel()


def _address(conversation: Conversation) -> str:
    """The node where it is registered; empty: nowhere."""
    link = conversation._link
    return link.transport.address if link and conversation.session.stage is Stage.REGISTERED else ""


def _fail_over(plane: ControlPlane, members: int, fail: Callable[[Process], None]) -> list[float]:
    """Seconds until each member of the node that failed was registered at the other."""
    environment = {**os.environ, "MUSTER_TOKEN": plane.token()}
    share = members // CLIENT_PROCESSES
    nodes = ",".join(plane.addresses.values())
    clients = []
    for number in range(CLIENT_PROCESSES):
        command = [sys.executable, "-m", "tests.benchmarks.failover", nodes, str(number * share), str(share)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        # Members without a broker warn of it.
        pipes["stderr"] = subprocess.DEVNULL
        clients.append(subprocess.Popen(command, cwd=ROOT, env=environment, **pipes))
    try:
        for client in clients:
            _said(client)
        for client in clients:
            assert client.stdin is not None
            client.stdin.write(f'"{plane.addresses["node-1"]}"\n')
            client.stdin.flush()
            _said(client)
        failed_at = time.monotonic()
        fail(plane.nodes["node-1"])
        return sorted(at - failed_at for client in clients for at in _said(client))
    finally:
        for client in clients:
            client.kill()
            client.wait()


def _said(client: "subprocess.Popen[str]") -> Any:
    assert client.stdout is not None
    return msgspec.json.decode(client.stdout.readline())


def run(home: Path, members: int = 1_000, rounds: int = 2) -> list[str]:
    """The table's lines."""
    lines = [
        f"{members} SDK members on two nodes, session {SESSION_TIMEOUT_MS} ms: until registered again (s)",
        f"{'node is':>8}{'members':>9}{'p50':>8}{'p99':>8}{'max':>8}",
    ]
    for name, fail in (("killed", Process.kill), ("stopped", Process.pause)):
        for _ in range(rounds):
            with bench_plane(home, "failover") as plane:
                plane.start_node("node-2")
                plane.wait_until_serving()
                eventually(partial(_shares, plane), "both nodes own shards", PATIENCE_S)
                took = _fail_over(plane, members, fail)
            p99 = statistics.quantiles(took, n=100)[98]
            lines.append(f"{name:>8}{len(took):>9}{statistics.median(took):>8.2f}{p99:>8.2f}{took[-1]:>8.2f}")
    return lines


def _shares(plane: ControlPlane) -> bool:
    """True if each node owns about half of the shards."""
    rows = plane.query("SELECT count(*) FROM lease WHERE run IS NOT NULL GROUP BY run")
    return len(rows) == 2 and min(int(str(count)) for (count,) in rows) > 20


if __name__ == "__main__":
    nodes, first, count = sys.argv[1:]
    asyncio.run(_be_members(nodes.split(","), int(first), int(count)))
