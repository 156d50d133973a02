"""This room measures offset commits: frames of one partition each, acknowledged after a durable commit.

Each connection sends its next CommitOffsets when the last one was answered, so what is measured is a closed
loop. The members register here; then their sockets are handed to the load generator, which compares every
answer: one error or refusal ends the run.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from coordinator.core.native.frames import commit_answer
from coordinator.core.offsets import Judgement
from muster.messages import codec
from muster.messages.member import CommitOffsetsRequest
from muster.messages.partitions import Position, positions_by_topic
from tests.benchmarks.frame_load import FrameLoad, Question
from tests.benchmarks.group_doors import ROUNDS, WINDOW_S, GroupDoor, node_door
from tests.benchmarks.planes import cpu_seconds
from tests.benchmarks.raw_kafka_member import places_of
from tests.benchmarks.raw_member import RawMember, frame
from tests.integration.coordinator.control_plane import ControlPlane

CONNECTIONS = 300
MEMBERS_OF_A_GROUP = 15
IN_FLIGHT = (1, 4)
SESSION_TIMEOUT_MS = 30 * 60 * 1000
"""Nobody is pinged meanwhile: the generator answers nothing."""

TOPIC = "bench-commits"
DIGITS = 9
_NUMBER, _OFFSET = 123_454_321, 198_767_891
"""These stand in frames that are built before one knows better."""


def _question(member: RawMember) -> Question:
    """What a member commits again and again: the next offset of the partition that it owns."""
    partition, position = next(iter(member.fetching.items()))
    asked = frame(
        codec.encode(
            CommitOffsetsRequest(
                correlation_id=_NUMBER,
                consumer_id=member.consumer_id,
                offset_info=positions_by_topic({partition: Position(_OFFSET, position.generation)}),
            )
        )
    )
    payload = codec.encode(commit_answer(_NUMBER, Judgement()))
    # A server's frame is not masked: two bytes, then its text.
    answer = bytes([0x81, len(payload)]) + payload
    (number_at,) = places_of(asked, b"%d" % _NUMBER)
    (answered_at,) = places_of(answer, b"%d" % _NUMBER)
    offsets_at = tuple(places_of(asked, b"%d" % _OFFSET))
    return Question(asked, answer, offsets_at, number_at=number_at, answered_at=answered_at, digits=DIGITS)


async def _registered(plane: ControlPlane) -> list[RawMember]:
    """Members that own a partition each, in groups that are Stable."""
    address, token = next(iter(plane.addresses.values())), plane.token()
    members = [
        RawMember(f"bench-{number // MEMBERS_OF_A_GROUP}", f"member-{number}", [TOPIC], SESSION_TIMEOUT_MS)
        for number in range(CONNECTIONS)
    ]
    for start in range(0, CONNECTIONS, 50):
        await asyncio.gather(*(one.connect(address, token) for one in members[start : start + 50]))
    await asyncio.gather(*(member.register() for member in members))
    until = time.monotonic() + 60
    while not await asyncio.to_thread(_all_run, plane):
        if time.monotonic() > until:
            raise RuntimeError("the groups do not become Stable")
        await asyncio.sleep(0.1)
    return members


def _all_run(plane: ControlPlane) -> bool:
    owners = (
        "SELECT count(DISTINCT (group_name, owner)) FROM partition_ownership WHERE state = 'running'"
        " AND group_name LIKE 'bench-%%'"
    )
    unstable = "SELECT count(*) FROM consumer_group WHERE name LIKE 'bench-%%' AND phase <> 'Stable'"
    return plane.query(owners)[0][0] == CONNECTIONS and not plane.query(unstable)[0][0]


def measure(home: Path, door: GroupDoor) -> list[str]:
    """A line for each number of requests in flight."""
    assert door.plane is not None
    with asyncio.Runner() as loop:
        members = loop.run(_registered(door.plane))
        # From here on nobody reads here: the loop stands still.
        sockets = [member.hand_over() for member in members]
        questions = [_question(member) for member in members]
        with FrameLoad(home, *door.address, questions, sockets) as load:
            return [_line(door, load, in_flight) for in_flight in IN_FLIGHT]


def _line(door: GroupDoor, load: FrameLoad, in_flight: int) -> str:
    load.window(WINDOW_S, in_flight)
    windows, cpu_us = [], list[float]()
    for _ in range(ROUNDS):
        before = cpu_seconds(door.pid)
        windows.append(load.window(WINDOW_S, in_flight))
        cpu_us.append((cpu_seconds(door.pid) - before) / windows[-1].answers * 1e6)

    def median(values: Sequence[float]) -> float:
        return statistics.median(values)

    return (
        f"{in_flight:<11}{median([one.rate for one in windows]):>11,.0f}"
        f"{median([one.p50_ms for one in windows]):>10.1f}{median([one.p99_ms for one in windows]):>10.1f}"
        f"{median(cpu_us):>13.1f}{median([one.cpu_s / one.answers * 1e6 for one in windows]):>18.1f}"
        f"{median([one.generator_core for one in windows]):>10.2f}{door.memory_mb():>10.0f}"
    )


def run(home: Path) -> list[str]:
    """The table's lines. Makes and removes folders under `home`."""
    lines = [
        f"offset commits, one partition a frame, {CONNECTIONS} websockets, acknowledged after COMMIT",
        f"{'in flight':<11}{'commits/s':>11}{'p50 ms':>10}{'p99 ms':>10}{'node CPU us':>13}"
        f"{'generator CPU us':>18}{'its core':>10}{'node MB':>10}",
    ]
    with node_door(home, "commits") as door:
        door.add_topic(TOPIC, MEMBERS_OF_A_GROUP)
        return lines + measure(home, door)


def main() -> None:
    """`python -m tests.benchmarks.commits`"""
    print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
