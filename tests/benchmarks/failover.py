"""This room measures how long members are without a coordinator when their node is killed, or hangs.

Members of 50 groups on two nodes; one node gets SIGKILL, or SIGSTOP. The clock runs until each member is
served by the other node, as the members themselves see it: the SDK's in processes of their own, and Kafka's,
whose frames are made by hand. These do as Kafka's own client does (in Java, `Heartbeat` and
`AbstractCoordinator`): a session is counted from the last answer, not from the last question, and at its end
they ask another door who coordinates. The node fails right after it answered them all, as nobody could notice
later.
"""

import asyncio
import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from muster.client.conversation import Conversation
from muster.client.core.session import Stage
from muster.client.core.wishes import Wishes
from muster.client.fetching import FetchOptions
from muster.messages.member import TopicCount
from tests.benchmarks.planes import bench_plane, cpu_seconds
from tests.benchmarks.raw_kafka_member import RawGroup, find_coordinator, found_coordinator, heartbeat
from tests.benchmarks.raw_member import print_json
from tests.integration.coordinator.control_plane import ControlPlane, Process, eventually
from tests.tidy.sources import ROOT

GROUPS = 50
CLIENT_PROCESSES = 2
SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_INTERVAL_S = 3.0
"""What all of Kafka's clients do by default."""

PATIENCE_S = 60.0
LOOK_EVERY_S = 0.01
KAFKA_TOPIC = "bench-failover"
OPEN_PATIENCE_S = 1.0

Address = tuple[str, int]


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
    used_s = time.process_time()
    while away:
        await asyncio.sleep(LOOK_EVERY_S)
        now = time.monotonic()
        back += [now for one in away if _address(one) not in ("", lost)]
        away = [one for one in away if _address(one) in ("", lost)]
    print_json({"back": back, "cpu_s": time.process_time() - used_s})
    for task in tasks:
        task.cancel()


def _address(conversation: Conversation) -> str:
    """The node where it is registered; empty: nowhere."""
    link = conversation._link
    return link.transport.address if link and conversation.session.stage is Stage.REGISTERED else ""


class Outcome(NamedTuple):
    """Seconds until each member of the node that failed was served by the other, and CPU seconds by then."""

    took_s: list[float]
    members_cpu_s: float
    """Of the members' own processes: what they need no node can save."""
    node_cpu_s: float
    """Of the node that takes over."""


def _fail_over(plane: ControlPlane, members: int, fail: Callable[[Process], None]) -> Outcome:
    """Members of the SDK, until each is registered at the other node."""
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
        node = plane.nodes["node-2"].popen.pid
        failed_at, used_s = time.monotonic(), cpu_seconds(node)
        fail(plane.nodes["node-1"])
        said = [_said(client) for client in clients]
        took = sorted(at - failed_at for one in said for at in one["back"])
        return Outcome(took, sum(one["cpu_s"] for one in said), cpu_seconds(node) - used_s)
    finally:
        for client in clients:
            client.kill()
            client.wait()


def _kafka_address(plane: ControlPlane, name: str) -> Address:
    """Where a node's Kafka door is."""
    found: list[Address] = []

    def known() -> bool:
        rows = plane.query("SELECT addresses ->> 'kafka' FROM node_session WHERE node = %s", name)
        found[:] = [(host, int(port)) for host, _, port in (str(row[0]).rpartition(":") for row in rows)]
        return bool(found)

    eventually(known, f"{name} has a Kafka door", PATIENCE_S)
    return found[-1]


def _fail_over_kafka(plane: ControlPlane, members: int, fail: Callable[[Process], None]) -> Outcome:
    """Members of Kafka, until a heartbeat of each was answered by the other node."""
    doors = [_kafka_address(plane, name) for name in ("node-1", "node-2")]
    lost, other = doors
    plane.add_topic(KAFKA_TOPIC, members)
    away = []
    for number in range(GROUPS):
        group = RawGroup(other, f"kafka-{number}", KAFKA_TOPIC)
        group.settle(group.add(members // GROUPS))
        if group.address == lost:
            away += [
                (group.group, heartbeat(group.group, one.generation, one.member_id).request)
                for one in group.members
            ]
        group.close()
    node = plane.nodes["node-2"].popen.pid
    used_s, members_s = cpu_seconds(node), time.process_time()
    took = asyncio.run(_kafka_members(doors, away, lambda: fail(plane.nodes["node-1"])))
    return Outcome(took, time.process_time() - members_s, cpu_seconds(node) - used_s)


async def _kafka_members(
    doors: list[Address], away: list[tuple[str, bytes]], fail: Callable[[], None]
) -> list[float]:
    served = [asyncio.Event() for _ in away]
    failed_at = [0.0]
    tasks = [
        asyncio.create_task(_be_kafka_member(doors, group, beat, event, failed_at))
        for (group, beat), event in zip(away, served, strict=True)
    ]
    await asyncio.gather(*(event.wait() for event in served))
    failed_at[0] = time.monotonic()
    fail()
    return sorted(await asyncio.gather(*tasks))


async def _be_kafka_member(
    doors: list[Address], group: str, beat: bytes, served: asyncio.Event, failed_at: list[float]
) -> float:
    """Heartbeats to the first door; when it is gone or silent, to whom the doors name instead."""
    lost = doors[0]
    with contextlib.suppress(OSError, EOFError, TimeoutError):
        await _heartbeats(lost, beat, served)
    while True:
        for door in (*doors[1:], lost):
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                found = found_coordinator(await _ask(door, find_coordinator(group)))
                if found is not None and found != lost and not await _error_of(found, beat):
                    return time.monotonic() - failed_at[0]
        await asyncio.sleep(0.05)


async def _heartbeats(door: Address, beat: bytes, served: asyncio.Event) -> None:
    """Until the connection ends, or a session after the last answer."""
    reader, writer = await asyncio.open_connection(*door)
    session_s, now = SESSION_TIMEOUT_MS / 1000, asyncio.get_running_loop().time
    try:
        async with asyncio.timeout(session_s) as session:
            while True:
                writer.write(beat)
                await _answer(reader)
                session.reschedule(now() + session_s)
                served.set()
                with contextlib.suppress(TimeoutError):
                    # Whoever hangs up is noticed between two heartbeats.
                    async with asyncio.timeout(HEARTBEAT_INTERVAL_S):
                        await reader.readexactly(1)
    finally:
        writer.transport.abort()


async def _ask(door: Address, frame: bytes) -> bytes:
    """The answer, without its length, of a connection that is made for it."""
    async with asyncio.timeout(OPEN_PATIENCE_S):
        reader, writer = await asyncio.open_connection(*door)
        try:
            writer.write(frame)
            return await _answer(reader)
        finally:
            writer.transport.abort()


async def _error_of(door: Address, beat: bytes) -> int:
    """Of a heartbeat."""
    return int.from_bytes((await _ask(door, beat))[9:11], "big")


async def _answer(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _said(client: "subprocess.Popen[str]") -> Any:
    assert client.stdout is not None
    return msgspec.json.decode(client.stdout.readline())


def run(home: Path, members: int = 1_000, rounds: int = 2) -> list[str]:
    """The table's lines."""
    lines = [
        f"{members} members on two nodes, session {SESSION_TIMEOUT_MS} ms: until served again (s)",
        f"{'client':>8}{'node is':>9}{'members':>9}{'p50':>8}{'p99':>8}{'max':>8}"
        f"{'their CPU':>11}{'the other node':>16}",
    ]
    ways = {"killed": Process.kill, "stopped": Process.pause}
    clients = {"SDK": _fail_over, "Kafka": _fail_over_kafka}
    for (client, fail_over), (name, fail) in itertools.product(clients.items(), ways.items()):
        for _ in range(rounds):
            with bench_plane(home, "failover", MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS="0") as plane:
                plane.start_node("node-2")
                plane.wait_until_serving()
                eventually(partial(_shares, plane), "both nodes own shards", PATIENCE_S)
                took, members_s, node_s = fail_over(plane, members, fail)
            p99 = statistics.quantiles(took, n=100)[98]
            lines.append(
                f"{client:>8}{name:>9}{len(took):>9}{statistics.median(took):>8.2f}{p99:>8.2f}{took[-1]:>8.2f}"
                f"{members_s:>11.2f}{node_s:>16.2f}"
            )
    return lines


def _shares(plane: ControlPlane) -> bool:
    """True if each node owns about half of the shards."""
    rows = plane.query("SELECT count(*) FROM lease WHERE run IS NOT NULL GROUP BY run")
    return len(rows) == 2 and min(int(str(count)) for (count,) in rows) > 20


if __name__ == "__main__":
    nodes, first, count = sys.argv[1:]
    asyncio.run(_be_members(nodes.split(","), int(first), int(count)))
