"""This room measures 5,000 websocket members that do nothing: what a node needs to know that they live.

MINUTES says for how long (default: 1). Pings alone are measured by members with short sessions. How late the
loop is for others is asked afterwards: what asks a hundred times a second would be measured, too.
"""

import os
import time
from pathlib import Path

from tests.benchmarks.frame_load import probe
from tests.benchmarks.group_doors import GroupDoor, node_door
from tests.benchmarks.member_processes import Counts, MemberProcesses, Role, shared
from tests.benchmarks.native_groups import stable_at

MEMBERS = 5_000
SETTLE_S = 10.0
PINGED = 2_000
PINGED_SESSION_MS = 1_500
PROBES_PER_S = 100
PROBED_S = 20.0


def _idle(home: Path, door: GroupDoor, members: int, session_ms: int, seconds: float) -> str:
    assert door.plane is not None
    group = f"idle-{members}-{session_ms}"
    door.add_topic(group, members)
    role = Role(next(iter(door.plane.addresses.values())), group, [group], 0, members, session_ms)
    idle_core = _core(door, 5.0)
    with MemberProcesses(door.plane, shared(role)) as clients, probe(home, *door.address) as asking:
        clients.register()
        stable_at(door.plane, group, members)
        time.sleep(SETTLE_S)
        late = door.late_lines()
        cpu, before, begun = door.cpu_s(), clients.counts(), time.monotonic()
        time.sleep(seconds)
        cpu, after, took = door.cpu_s() - cpu, clients.counts(), time.monotonic() - begun
        memory = door.memory_mb()
        asking.begin(PROBED_S, rate=PROBES_PER_S)
        probed = asking.end()
    pings = after.pings - before.pings
    own = (cpu / took - idle_core) * took / max(pings, 1) * 1e6
    return (
        f"{members:<9}{session_ms:>11}{took:>7.0f}{cpu / took:>8.3f}{idle_core:>10.3f}{memory:>8.0f}"
        f"{after.lost:>6}{pings / took:>9.0f}{own:>14.1f}{_core_of(before, after, took):>14.3f}"
        f"{probed.p999_ms:>13.1f}{probed.max_ms:>8.1f}{door.late_lines() - late:>6}"
    )


def _core(door: GroupDoor, seconds: float) -> float:
    """The share of a core that the node uses for nobody."""
    cpu = door.cpu_s()
    time.sleep(seconds)
    return (door.cpu_s() - cpu) / seconds


def _core_of(before: Counts, after: Counts, took_s: float) -> float:
    return (after.cpu_s - before.cpu_s) / took_s


def run(home: Path, minutes: float | None = None) -> list[str]:
    """The table's lines. Makes and removes a folder under `home`."""
    seconds = 60 * (float(os.environ.get("MINUTES", "1")) if minutes is None else minutes)
    lines = [
        "websocket members that do nothing; the node's core share with and without them, PSS",
        f"{'members':<9}{'session ms':>11}{'s':>7}{'core':>8}{'without':>10}{'MB':>8}{'lost':>6}"
        f"{'pings/s':>9}{'us for a ping':>14}{'clients core':>14}{'probe p99.9':>13}{'max ms':>8}{'late':>6}",
    ]
    with node_door(home, "idle-members") as door:
        lines.append(_idle(home, door, MEMBERS, 10_000, seconds))
    with node_door(home, "idle-members", MUSTER_GROUP_MIN_SESSION_TIMEOUT_MS="1000") as door:
        lines.append(_idle(home, door, PINGED, PINGED_SESSION_MS, min(seconds, 20)))
    return lines


def main() -> None:
    """`python -m tests.benchmarks.idle_members`"""
    print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
