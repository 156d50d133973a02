"""This room measures registration: 100 and 1,000 websocket members of one group, until the group is Stable.

The clock runs from the answer to the last RegisterConsumer to the moment at which every partition's row is
`running` and the group Stable, as read from PostgreSQL every 10 ms.
"""

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.planes import bench_plane, cpu_seconds, resident_mb
from tests.benchmarks.raw_member import RawMember, print_json
from tests.integration.coordinator.control_plane import ROOT, ControlPlane

CLIENT_PROCESSES = 2
PATIENCE_S = 60.0


async def _be_members(address: str, group: str, topic: str, first: int, count: int) -> None:
    members = [RawMember(group, f"member-{number:05}", topic) for number in range(first, first + count)]
    token = os.environ["MUSTER_TOKEN"]
    for start in range(0, count, 50):
        await asyncio.gather(*(member.connect(address, token) for member in members[start : start + 50]))
    print_json({"connected": count})
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(*(member.register() for member in members))
    print_json({"registered_at": time.monotonic()})
    await asyncio.Event().wait()


def _clients(plane: ControlPlane, group: str, topic: str, members: int) -> "list[subprocess.Popen[str]]":
    share = members // CLIENT_PROCESSES
    address = next(iter(plane.addresses.values()))
    environment = {**os.environ, "MUSTER_TOKEN": plane.token()}
    return [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.benchmarks.members",
                address,
                group,
                topic,
                str(n * share),
                str(share),
            ],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(CLIENT_PROCESSES)
    ]


def _line(client: "subprocess.Popen[str]") -> dict[str, float]:
    assert client.stdout is not None
    line = client.stdout.readline()
    if not line:
        raise RuntimeError("a client process ended")
    found: dict[str, float] = json.loads(line)
    return found


def one_round(plane: ControlPlane, group: str, members: int) -> tuple[float, float]:
    """Milliseconds from the first Register, and from the last answer, to Stable; a partition for each."""
    topic = f"topic-{group}"
    plane.add_topic(topic, members)
    clients = _clients(plane, group, topic, members)
    try:
        for client in clients:
            _line(client)
        began = time.monotonic()
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.flush()
        registered_at = max(_line(client)["registered_at"] for client in clients)
        stable_at = _wait_until_stable(plane, group, members)
        return (stable_at - began) * 1000, (stable_at - registered_at) * 1000
    finally:
        for client in clients:
            client.send_signal(signal.SIGKILL)
            client.communicate()


def _wait_until_stable(plane: ControlPlane, group: str, members: int) -> float:
    import psycopg

    settled = (
        "SELECT phase = 'Stable' AND (SELECT count(DISTINCT owner) FROM partition_ownership"
        " WHERE group_name = name AND state = 'running') = %s FROM consumer_group WHERE name = %s"
    )
    until = time.monotonic() + PATIENCE_S
    with psycopg.connect(plane.database_url, autocommit=True) as connection:
        while time.monotonic() < until:
            row = connection.execute(settled, (members, group)).fetchone()
            if row is not None and row[0]:
                return time.monotonic()
            time.sleep(0.01)
    raise RuntimeError(f"{group} is not Stable after {PATIENCE_S} s")


def run(home: Path, sizes: tuple[int, ...] = (100, 1_000), rounds: int = 3) -> list[str]:
    """The table's lines. Makes and removes a folder under `home`."""
    lines = [
        "websocket members of one group, until Stable (every member owns one partition)",
        f"{'members':<10}{'after the last registered, ms':>32}{'worst ms':>12}{'from the first, ms':>22}"
        f"{'node CPU s':>12}{'node MB':>10}",
    ]
    with bench_plane(home, "members") as plane:
        node = plane.nodes["node-1"].popen.pid
        for size in sizes:
            cpu = cpu_seconds(node)
            took = [one_round(plane, f"bench-{size}-{number}", size) for number in range(rounds)]
            after = [last for _, last in took]
            lines.append(
                f"{size:<10}{statistics.median(after):>32.0f}{max(after):>12.0f}"
                f"{statistics.median(first for first, _ in took):>22.0f}"
                f"{(cpu_seconds(node) - cpu) / rounds:>12.2f}{resident_mb(node):>10.0f}"
            )
    return lines


def main() -> None:
    """`python -m tests.benchmarks.members` measures; with arguments it is one client process of it."""
    if len(sys.argv) == 6:
        address, group, topic, first, count = sys.argv[1:]
        asyncio.run(_be_members(address, group, topic, int(first), int(count)))
    else:
        print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
