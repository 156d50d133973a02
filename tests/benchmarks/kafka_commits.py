"""This room measures OffsetCommit at a Kafka door beside Apache Kafka: one partition a request, and ten.

500 members of ten groups, a connection each; every commit is durable (fsynced) when a node answers it, and
in the page cache when Kafka does.
"""

import os
from pathlib import Path

from tests.benchmarks.frame_load import Question
from tests.benchmarks.group_doors import HEAD, GroupDoor, closed_loops, group_doors
from tests.benchmarks.raw_kafka_member import RawGroup, commit

GROUPS, MEMBERS = 10, 50
TOPIC = "bench-commits"
PARTITIONS = MEMBERS * 10
KINDS = ((1, 1), (1, 4), (10, 1), (10, 4))
"""Partitions of a request, and requests in flight on each connection."""


def questions(door: GroupDoor) -> dict[int, list[Question]]:
    """For each member, by the partitions of a request, what it commits."""
    door.add_topic(TOPIC, PARTITIONS)
    found: dict[int, list[Question]] = {1: [], 10: []}
    for number in range(GROUPS):
        group = RawGroup(door.address, f"commits-{number}", TOPIC)
        group.settle(group.add(MEMBERS))
        for place, member in enumerate(group.members):
            for width, into in found.items():
                numbers = range(place * 10, place * 10 + width)
                into.append(commit(group.group, member.generation, member.member_id, TOPIC, numbers))
        group.close()
    return found


def run(home: Path) -> list[str]:
    """The table's lines. Makes and removes folders under `home`."""
    lines = [
        f"OffsetCommit, {GROUPS * MEMBERS} connections, {GROUPS} groups; requests",
        f"{'partitions':<12}{'in flight':<11}{HEAD}{'partitions/s':>14}",
    ]
    with group_doors(home, "kafka-commits") as doors:
        asked = [questions(door) for door in doors]
        for width, in_flight in KINDS:
            found = closed_loops(home, doors, [one[width] for one in asked], in_flight)
            lines += [
                f"{width:<12}{in_flight:<11}{one.columns(found[-1])}{one.rate * width:>14,.0f}"
                for one in found
            ]
    return lines


def main() -> None:
    """`python -m tests.benchmarks.kafka_commits`"""
    print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
