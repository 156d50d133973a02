"""This room measures offset commits: frames of one partition each, acknowledged after a durable commit.

Each connection sends its next CommitOffsets when the last one was answered, so what is measured is a closed
loop; every answer is looked at, and one error or refusal ends the run.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from muster.messages import codec
from muster.messages.member import CommitOffsetsRequest, CommitOffsetsResponse
from muster.messages.partitions import Position, positions_by_topic
from tests.benchmarks.planes import bench_plane, cpu_seconds, resident_mb
from tests.benchmarks.raw_member import RawMember, frame, print_json
from tests.integration.coordinator.control_plane import ROOT, ControlPlane

CLIENT_PROCESSES = 2
CONNECTIONS = 300
MEMBERS_OF_A_GROUP = 15
ROUNDS = 3
WARM_UP_S = 2.0
MEASURED_S = 5.0
TOPIC = "bench-commits"


class Committer:
    """One connection that commits the next offset of one partition as soon as the last is durable."""

    def __init__(self, member: RawMember) -> None:
        self._member = member
        self._number = 0
        self._sent_at = 0.0
        self._prefix = b""
        self._suffix = b""
        self.latencies_ms: list[float] = []
        self.problems: list[str] = []
        self.measuring = False

    def start(self) -> None:
        """Commit from now on."""
        partition, position = next(iter(self._member.fetching.items()))
        template = codec.encode(
            CommitOffsetsRequest(
                correlation_id=987654321,
                consumer_id=self._member.consumer_id,
                offset_info=positions_by_topic({partition: Position(123454321, position.generation)}),
            )
        )
        head, _, rest = template.partition(b"987654321")
        middle, _, tail = rest.partition(b"123454321")
        self._parts = head, middle, tail
        self._member.commit_answered = self._answered
        self._send()

    def _send(self) -> None:
        self._number += 1
        head, middle, tail = self._parts
        number = b"%d" % self._number
        self._sent_at = time.monotonic()
        assert self._member.socket is not None
        self._member.socket.say_frame(frame(head + number + middle + number + tail))

    def _answered(self, answer: CommitOffsetsResponse) -> None:
        if answer.error_code or answer.refused or answer.correlation_id != self._number:
            self.problems.append(repr(answer))
            return
        if self.measuring:
            self.latencies_ms.append((time.monotonic() - self._sent_at) * 1000)
        self._send()


async def _be_clients(address: str, first: int, count: int) -> None:
    members = [
        RawMember(f"bench-{number // MEMBERS_OF_A_GROUP}", f"member-{number}", [TOPIC])
        for number in range(first, first + count)
    ]
    token = os.environ["MUSTER_TOKEN"]
    for start in range(0, count, 50):
        await asyncio.gather(*(member.connect(address, token) for member in members[start : start + 50]))
    await asyncio.gather(*(member.register() for member in members))
    print_json({"registered": count})
    await asyncio.to_thread(sys.stdin.readline)
    committers = [Committer(member) for member in members if member.fetching]
    for committer in committers:
        committer.start()
    await asyncio.sleep(WARM_UP_S)
    for _ in range(ROUNDS):
        for committer in committers:
            committer.latencies_ms.clear()
            committer.measuring = True
        await asyncio.sleep(MEASURED_S)
        print_json(
            {
                "latencies_ms": [ms for committer in committers for ms in committer.latencies_ms],
                "problems": [text for committer in committers for text in committer.problems][:5],
            }
        )


def measure(plane: ControlPlane, node: int) -> list[tuple[float, float, float, float]]:
    """Of each round: commits a second, p50 and p99 in milliseconds, CPU microseconds of `node` a commit."""
    share = CONNECTIONS // CLIENT_PROCESSES
    address = next(iter(plane.addresses.values()))
    environment = {**os.environ, "MUSTER_TOKEN": plane.token()}
    clients = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.commits", address, str(n * share), str(share)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(CLIENT_PROCESSES)
    ]
    try:
        for client in clients:
            _line(client)
        _wait_until_all_run(plane)
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.flush()
        # The clients have warmed up when about this much time has passed; their rounds follow one another.
        time.sleep(WARM_UP_S)
        found, before = [], cpu_seconds(node)
        for _ in range(ROUNDS):
            rate, p50, p99 = _round([_line(client) for client in clients])
            after = cpu_seconds(node)
            found.append((rate, p50, p99, (after - before) / (rate * MEASURED_S) * 1e6))
            before = after
        return found
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def _line(client: "subprocess.Popen[str]") -> dict[str, Any]:
    assert client.stdout is not None
    line = client.stdout.readline()
    if not line:
        raise RuntimeError("a client process ended")
    found: dict[str, Any] = json.loads(line)
    return found


def _round(results: list[dict[str, Any]]) -> tuple[float, float, float]:
    problems = [text for result in results for text in result["problems"]]
    if problems:
        raise RuntimeError(f"commits were refused: {problems}")
    latencies = sorted(ms for result in results for ms in result["latencies_ms"])
    quantiles = statistics.quantiles(latencies, n=100)
    return len(latencies) / MEASURED_S, quantiles[49], quantiles[98]


def _wait_until_all_run(plane: ControlPlane) -> None:
    until = time.monotonic() + 60
    owners = "SELECT count(*) FROM (SELECT DISTINCT group_name, owner FROM partition_ownership) AS o"
    unstable = "SELECT count(*) FROM consumer_group WHERE name LIKE 'bench-%%' AND phase <> 'Stable'"
    while plane.query(owners)[0][0] != CONNECTIONS or plane.query(unstable)[0][0]:
        if time.monotonic() > until:
            raise RuntimeError("the groups do not become Stable")
        time.sleep(0.1)
    # A first share may have moved on; positions hold the generation of the last StartFetcher.
    time.sleep(1)


def run(home: Path) -> list[str]:
    """The table's lines. Makes and removes a folder under `home`."""
    with bench_plane(home, "commits") as plane:
        plane.add_topic(TOPIC, MEMBERS_OF_A_GROUP)
        node = plane.nodes["node-1"].popen.pid
        rounds = measure(plane, node)
        memory = resident_mb(node)
    rate, p50, p99, cpu = (statistics.median(one[place] for one in rounds) for place in range(4))
    return [
        f"offset commits, one partition a frame, {CONNECTIONS} websockets, acknowledged after COMMIT",
        f"{'commits/s':<12}{'p50 ms':>10}{'p99 ms':>10}{'node CPU us':>13}{'node MB':>10}",
        f"{rate:<12,.0f}{p50:>10.1f}{p99:>10.1f}{cpu:>13.0f}{memory:>10.0f}",
    ]


def main() -> None:
    """`python -m tests.benchmarks.commits` measures; with arguments it is one client process of it."""
    if len(sys.argv) == 4:
        asyncio.run(_be_clients(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    else:
        print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
