"""This room measures rebalances of websocket members: many register, one joins 1,000 others or 5,000.

The clock runs from a RegisterConsumer, or from the answer to the last of them, to the moment at which the
group is Stable and every member's partitions are `running`, as read from PostgreSQL.
"""

import os
import statistics
import sys
import time
from pathlib import Path

import psycopg

from tests.benchmarks.frame_load import probe
from tests.benchmarks.group_doors import GroupDoor, node_door
from tests.benchmarks.member_processes import MemberProcesses, Role, shared
from tests.integration.coordinator.control_plane import ControlPlane

PATIENCE_S = 90.0
LOOK_EVERY_S = 0.005
PROBES_PER_S = 200
REGISTERED = (100, 1_000)
JOINED = (1_000, 5_000)
MANY, PARTITIONS, TOPICS = 7_000, 20_000, 1_000


def stable_at(plane: ControlPlane, group: str, owners: int) -> float:
    """When so many members own partitions that they fetch, and the group is Stable."""
    settled = (
        "SELECT phase = 'Stable' AND (SELECT count(DISTINCT owner) FROM partition_ownership"
        " WHERE group_name = name AND state = 'running') = %s FROM consumer_group WHERE name = %s"
    )
    phase = "SELECT phase FROM consumer_group WHERE name = %s"
    until = time.monotonic() + PATIENCE_S
    with psycopg.connect(plane.database_url, autocommit=True) as connection:
        while time.monotonic() < until:
            at = time.monotonic()
            # The first question is cheap; the second one counts.
            if (row := connection.execute(phase, (group,)).fetchone()) and row[0] == "Stable":
                row = connection.execute(settled, (owners, group)).fetchone()
                if row is not None and row[0]:
                    return at
            time.sleep(LOOK_EVERY_S)
    raise RuntimeError(f"{group} is not Stable after {PATIENCE_S} s")


def _registration(door: GroupDoor, size: int, rounds: int) -> str:
    """Everybody registers at once; a partition for each."""
    plane, took, cpu = _plane(door), [], door.cpu_s()
    address = next(iter(plane.addresses.values()))
    for number in range(rounds):
        group = f"registered-{size}-{number}"
        plane.add_topic(group, size)
        with MemberProcesses(plane, shared(Role(address, group, [group], 0, size))) as clients:
            began = time.monotonic()
            registered = clients.register()
            at = stable_at(plane, group, size)
            took.append((at - registered, at - began))
    after = [last for last, _ in took]
    return (
        f"{size:<10}{statistics.median(after) * 1000:>26.0f}{max(after) * 1000:>10.0f}"
        f"{statistics.median(first for _, first in took) * 1000:>16.0f}"
        f"{(door.cpu_s() - cpu) / rounds:>12.2f}{door.memory_mb():>9.0f}"
    )


def _joins(home: Path, door: GroupDoor, size: int, rounds: int) -> str:
    """One after the other joins a group of `size`; two partitions for each, so that each has to get one."""
    plane, group, late = _plane(door), f"joined-{size}", door.late_lines()
    plane.add_topic(group, 2 * size)
    address = next(iter(plane.addresses.values()))
    role = Role(address, group, [group], 0, size)
    with MemberProcesses(plane, shared(role)) as clients, probe(home, *door.address) as asking:
        clients.register()
        stable_at(plane, group, size)
        took, probed, before, cpu = [], [], clients.counts(), door.cpu_s()
        for number in range(rounds):
            asking.begin(1.5, rate=PROBES_PER_S)
            took.append(-clients.one_more() + stable_at(plane, group, size + number + 1))
            probed.append(asking.end())
        cpu, after = door.cpu_s() - cpu, clients.counts()
    return (
        f"{size:<10}{statistics.median(took) * 1000:>10.0f}{max(took) * 1000:>10.0f}"
        f"{(after.stops - before.stops) / rounds:>9.1f}{(after.losses - before.losses) / rounds:>9.1f}"
        f"{(after.starts - before.starts) / rounds:>9.1f}{cpu / rounds:>12.2f}"
        f"{(after.cpu_s - before.cpu_s) / rounds:>15.2f}{door.memory_mb():>9.0f}"
        f"{max(one.p99_ms for one in probed):>11.1f}{max(one.max_ms for one in probed):>9.1f}"
        f"{door.late_lines() - late:>6}"
    )


def _many(home: Path, door: GroupDoor, members: int, topics: int) -> str:
    """Half of them subscribe to all topics, the others to a fifth of them: enough for one partition each."""
    plane, late = _plane(door), door.late_lines()
    names = [f"many-{topics}-{number}" for number in range(topics)]
    for name in names:
        plane.add_topic(name, PARTITIONS // topics)
    address, group = next(iter(plane.addresses.values())), f"many-{topics}"
    half = members // 2
    roles = [Role(address, group, names, 0, half), Role(address, group, names[: -(-topics // 5)], half, half)]
    with MemberProcesses(plane, roles) as clients, probe(home, *door.address) as asking:
        began, cpu, before = time.monotonic(), door.cpu_s(), clients.counts()
        asking.begin(20.0, rate=PROBES_PER_S)
        registered = clients.register()
        at = stable_at(plane, group, members)
        cpu, after, probed = door.cpu_s() - cpu, clients.counts(), asking.end()
    return (
        f"{members:<10}{PARTITIONS:>11,}{topics:>8,}{at - registered:>24.2f}{at - began:>14.2f}{cpu:>12.2f}"
        f"{after.cpu_s - before.cpu_s:>15.2f}{door.memory_mb():>9.0f}{probed.p99_ms:>11.1f}"
        f"{probed.max_ms:>9.1f}{door.late_lines() - late:>6}"
    )


def _plane(door: GroupDoor) -> ControlPlane:
    assert door.plane is not None
    return door.plane


def run(home: Path, rounds: int = 3, joined: tuple[int, ...] = JOINED, many: int = MANY) -> list[str]:
    """The tables' lines. Makes and removes folders under `home`."""
    lines = [
        "websocket members of one group register at once, until Stable",
        f"{'members':<10}{'after the last answer, ms':>26}{'worst ms':>10}{'in all, ms':>16}"
        f"{'node CPU s':>12}{'node MB':>9}",
    ]
    with node_door(home, "native-groups") as door:
        lines += [_registration(door, size, rounds) for size in REGISTERED]
        lines += [
            "one more joins, until all of them have started; messages of one join",
            f"{'members':<10}{'ms':>10}{'worst ms':>10}{'stops':>9}{'losses':>9}{'starts':>9}"
            f"{'node CPU s':>12}{'clients CPU s':>15}{'node MB':>9}{'probe p99':>11}{'max ms':>9}{'late':>6}",
        ]
        lines += [_joins(home, door, size, rounds) for size in joined]
    lines += [
        "many register at once, until Stable; half of them for all topics, the others for a fifth",
        f"{'members':<10}{'partitions':>11}{'topics':>8}{'after the last answer, s':>24}{'in all, s':>14}"
        f"{'node CPU s':>12}{'clients CPU s':>15}{'node MB':>9}{'probe p99':>11}{'max ms':>9}{'late':>6}",
    ]
    for topics in (1, TOPICS):
        try:
            with node_door(home, "native-groups") as door:
                lines.append(_many(home, door, many, topics))
        except RuntimeError as problem:
            lines.append(f"{many:<10}{PARTITIONS:>11,}{topics:>8,}  NOT REACHED: {problem}")
    return lines


def main() -> None:
    """`python -m tests.benchmarks.native_groups [ROUNDS [JOINED [MANY]]]`"""
    home = Path(os.environ.get("MUSTER_HOME", ".muster"))
    numbers = [int(text) for text in sys.argv[1:4]]
    more = {"joined": (numbers[1],)} if len(numbers) > 1 else {}
    many = {"many": numbers[2]} if len(numbers) > 2 else {}
    print("\n".join(run(home, numbers[0] if numbers else 3, **more, **many)))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
