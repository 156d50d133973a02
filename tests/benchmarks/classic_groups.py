"""This room measures a rebalance of Kafka's members beside Apache Kafka: one joins 1,000 others, or 5,000.

The clock runs from its JoinGroup until every member has the assignment of the new generation. All members
live on one loop of this process, with frames that were built before; what it used itself is shown.
"""

import os
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.frame_load import Window, probe
from tests.benchmarks.group_doors import GroupDoor, group_doors
from tests.benchmarks.raw_kafka_member import RawGroup

SIZES = (1_000, 5_000)
ROUNDS = 5
TOLD_WITHIN_S = 0.05
"""Heartbeats tell the members of a rebalance one after the other; here in this time, at both doors."""

PROBES_PER_S = 500


class Round(NamedTuple):
    """One member more."""

    took_s: float
    door_cpu_s: float
    own_cpu_s: float
    probed: Window


def one_round(home: Path, door: GroupDoor, group: RawGroup) -> Round:
    """One joins, while a probe asks the door for something that needs nobody."""
    with probe(home, *door.address) as asking:
        asking.begin(2.0, rate=PROBES_PER_S)
        cpu, own = door.cpu_s(), time.process_time()
        took = group.one_joins(TOLD_WITHIN_S)
        cpu, own = door.cpu_s() - cpu, time.process_time() - own
        return Round(took, cpu, own, asking.end())


def run(home: Path, sizes: tuple[int, ...] = SIZES, rounds: int = ROUNDS) -> list[str]:
    """The table's lines. Makes and removes folders under `home`."""
    lines = [
        f"one joins a classic group, until all are assigned again; told within {TOLD_WITHIN_S * 1000:.0f} ms",
        f"{'members':<9}{'door':<14}{'median ms':>10}{'best':>7}{'worst':>7}{'x Kafka':>9}{'its CPU s':>11}"
        f"{'generator CPU s':>17}{'MB':>7}{'probe p99':>11}{'max ms':>8}{'late lines':>12}",
    ]
    with group_doors(home, "classic-groups") as doors:
        for door in doors:
            door.add_topic("bench-classic", max(sizes) + rounds + 1)
        for size in sizes:
            lines += _of_size(home, doors, size, rounds)
    return lines


def _of_size(home: Path, doors: list[GroupDoor], size: int, rounds: int) -> list[str]:
    groups = [RawGroup(door.address, f"classic-{size}", "bench-classic") for door in doors]
    late = [door.late_lines() for door in doors]
    for group in groups:
        group.settle(group.add(size))
    found: list[list[Round]] = [[] for _ in doors]
    # One more that does not count: a JVM compiles, and the node loads what it needs.
    for number in range(rounds + 1):
        for door, group, into in zip(doors, groups, found, strict=True):
            taken = one_round(home, door, group)
            if number:
                into.append(taken)
    for group in groups:
        group.close()
    beside = statistics.median(one.took_s for one in found[-1]) if doors[-1].is_kafka else float("nan")
    lines = []
    for door, into, before in zip(doors, found, late, strict=True):
        took = [one.took_s for one in into]
        lines.append(
            f"{size:<9}{door.name:<14}{statistics.median(took) * 1000:>10.0f}{min(took) * 1000:>7.0f}"
            f"{max(took) * 1000:>7.0f}{statistics.median(took) / beside:>9.2f}"
            f"{statistics.median(one.door_cpu_s for one in into):>11.2f}"
            f"{statistics.median(one.own_cpu_s for one in into):>17.2f}{door.memory_mb():>7.0f}"
            f"{statistics.median(one.probed.p99_ms for one in into):>11.1f}"
            f"{max(one.probed.max_ms for one in into):>8.0f}{door.late_lines() - before:>12}"
        )
    return lines


def main() -> None:
    """`python -m tests.benchmarks.classic_groups [SIZE] [ROUNDS]`"""
    home = Path(os.environ.get("MUSTER_HOME", ".muster"))
    sizes = (int(sys.argv[1]),) if len(sys.argv) > 1 else SIZES
    print("\n".join(run(home, sizes, *map(int, sys.argv[2:3]))))


if __name__ == "__main__":
    main()
