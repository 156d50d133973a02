"""This room measures heartbeats of Kafka's members beside Apache Kafka, alone and beside other work.

Ten groups of fifty, a connection for each member, one and four heartbeats in flight. Beside other work they
come at a steady rate while a group of 1,000 is rebalanced and offsets are committed.
"""

import os
import statistics
import time
from pathlib import Path

from tests.benchmarks.frame_load import FrameLoad, Question, probe
from tests.benchmarks.group_doors import HEAD, GroupDoor, closed_loops, group_doors
from tests.benchmarks.raw_kafka_member import RawGroup, commit, heartbeat

GROUPS, MEMBERS = 10, 50
TOPIC = "bench-heartbeats"
STEADY_RATE = 2_000
COMMIT_RATE = 5_000
LARGE_GROUP = 1_000
BESIDE_S = 8.0


def seats(door: GroupDoor) -> tuple[list[Question], list[Question]]:
    """For each member of the small groups its heartbeat, and a commit of its partition."""
    door.add_topic(TOPIC, GROUPS * MEMBERS)
    beats, commits = [], []
    for number in range(GROUPS):
        group = RawGroup(door.address, f"small-{number}", TOPIC)
        group.settle(group.add(MEMBERS))
        for place, member in enumerate(group.members):
            said = group.group, member.generation, member.member_id
            beats.append(heartbeat(*said))
            commits.append(commit(*said, TOPIC, [number * MEMBERS + place]))
        group.close()
    return beats, commits


def run(home: Path) -> list[str]:
    """The tables' lines. Makes and removes folders under `home`."""
    lines = [
        f"heartbeats, {GROUPS * MEMBERS} connections, {GROUPS} groups",
        f"{'in flight':<11}{HEAD}",
    ]
    with group_doors(home, "heartbeats") as doors:
        questions = [seats(door) for door in doors]
        for in_flight in (1, 4):
            found = closed_loops(home, doors, [beats for beats, _ in questions], in_flight)
            lines += [f"{in_flight:<11}{one.columns(found[-1])}" for one in found]
        lines += [
            f"{STEADY_RATE:,} heartbeats/s, {COMMIT_RATE:,} commits/s, rebalances of {LARGE_GROUP:,} members",
            f"{'door':<14}{'beats':>8}{'p50 ms':>8}{'p99 ms':>8}{'max ms':>8}{'commits/s':>11}"
            f"{'p99 ms':>8}{'rebalance ms':>14}{'probe p99.9':>13}{'max ms':>8}{'late':>6}",
        ]
        for door, (beats, commits) in zip(doors, questions, strict=True):
            lines.append(_beside_other_work(home, door, beats, commits))
    return lines


def _beside_other_work(home: Path, door: GroupDoor, beats: list[Question], commits: list[Question]) -> str:
    large = RawGroup(door.address, "large", TOPIC)
    large.settle(large.add(LARGE_GROUP))
    late = door.late_lines()
    with (
        FrameLoad(home, *door.address, beats) as beating,
        FrameLoad(home, *door.address, commits) as committing,
        probe(home, *door.address) as asking,
    ):
        for load, rate in ((beating, STEADY_RATE), (committing, COMMIT_RATE), (asking, 500)):
            load.begin(BESIDE_S, rate=rate)
        until, took = time.monotonic() + BESIDE_S - 2, []
        while time.monotonic() < until:
            took.append(large.one_joins(over_s=0.05) * 1000)
            time.sleep(1)
        beaten, committed, probed = beating.end(), committing.end(), asking.end()
    large.close()
    return (
        f"{door.name:<14}{beaten.answers:>8}{beaten.p50_ms:>8.1f}{beaten.p99_ms:>8.1f}{beaten.max_ms:>8.1f}"
        f"{committed.rate:>11,.0f}{committed.p99_ms:>8.1f}{statistics.median(took):>14.0f}"
        f"{probed.p999_ms:>13.1f}{probed.max_ms:>8.1f}{door.late_lines() - late:>6}"
    )


def main() -> None:
    """`python -m tests.benchmarks.heartbeats`"""
    print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
