"""This room measures a whole stack that has nothing to do: memory and processor time of every process of it.

Memory is the proportional share (PSS): a page that several processes share counts once in the sum.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from standalone.processes import ROOT

START_LIMIT_S = 180.0
SETTLE_S = 10.0
IDLE_S = 10.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Sample(NamedTuple):
    """What one process has used so far."""

    parent: int
    command: str
    processor_s: float


def processes_below(top: int) -> dict[int, Sample]:
    """The process `top` and all its descendants, by process id."""
    everything: dict[int, Sample] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            _, _, numbers = (folder / "stat").read_text().rpartition(")")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        fields = numbers.split()
        everything[int(folder.name)] = Sample(
            int(fields[1]), command, (int(fields[11]) + int(fields[12])) / TICKS_PER_S
        )
    found = {top}
    while more := {pid for pid, one in everything.items() if one.parent in found} - found:
        found |= more
    return {pid: everything[pid] for pid in sorted(found) if pid in everything}


def proportional_bytes(pid: int) -> int:
    """The memory of a process, shared pages divided among their users; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def role_of(command: str, names: dict[int, str], pid: int, parent: int) -> str:
    """A name that people know: the stack's own, or what the command says."""
    if pid in names:
        return names[pid]
    for part, role in (
        ("manage.py up", "up"),
        ("node.spare", "node's spare"),
        ("redis-server", "redis"),
        ("supervisor", "supervisor"),
        ("celery", "worker's child"),
        ("postgres", "postgres"),
    ):
        if part in command:
            return role
    return f"child of {names.get(parent, parent)}"


def table(before: dict[int, Sample], after: dict[int, Sample], names: dict[int, str]) -> list[str]:
    """One line a role, PostgreSQL's many backends together, and the sum."""
    rows: dict[str, tuple[int, float, float]] = {}
    for pid, one in after.items():
        role = role_of(one.command, names, pid, one.parent)
        spent_s = one.processor_s - before[pid].processor_s if pid in before else one.processor_s
        count, memory, percent = rows.get(role, (0, 0.0, 0.0))
        megabytes = proportional_bytes(pid) / 1e6
        rows[role] = (count + 1, memory + megabytes, percent + 100 * spent_s / IDLE_S)
    sums = [sum(column) for column in zip(*rows.values(), strict=True)]
    return [
        f"a stack without work: 1 node, 3 brokers, 1 worker, over {IDLE_S:.0f} s",
        f"{'process':<20}{'count':>6}{'PSS MB':>10}{'CPU %':>8}",
        *(f"{role:<20}{count:>6}{memory:>10.1f}{cpu:>8.1f}" for role, (count, memory, cpu) in rows.items()),
        f"{'all':<20}{sums[0]:>6.0f}{sums[1]:>10.1f}{sums[2]:>8.1f}",
    ]


def run(home: Path) -> list[str]:
    """The table's lines. Makes and removes a folder under `home`; Linux only."""
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="idle-", dir=home)).resolve()
    command = [sys.executable, "manage.py", "up", "--nodes", "1", "--brokers", "3", "--workers", "1"]
    environment = {**os.environ, "MUSTER_HOME": str(folder)}
    # Beside the folder, not in it: a stack moves only into an empty one.
    log = folder.with_suffix(".log")
    with log.open("wb") as output:
        top = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        names = _names(folder, log, top)
        time.sleep(SETTLE_S)
        before = processes_below(top.pid)
        time.sleep(IDLE_S)
        return table(before, processes_below(top.pid), names)
    finally:
        if top.poll() is None:
            top.send_signal(signal.SIGTERM)
        top.wait()
        shutil.rmtree(folder, ignore_errors=True)
        log.unlink(missing_ok=True)


def _names(folder: Path, log: Path, top: "subprocess.Popen[bytes]") -> dict[int, str]:
    """Name of each process that the stack started, once it is up."""
    stack = folder / "stack.json"
    give_up_at = time.monotonic() + START_LIMIT_S
    while not stack.exists():
        if top.poll() is not None or time.monotonic() > give_up_at:
            raise RuntimeError("the stack did not start:\n" + log.read_text()[-2_000:])
        time.sleep(0.2)
    return {one["pid"]: one["name"] for one in json.loads(stack.read_text())["processes"]}


def main() -> None:
    """`python -m tests.benchmarks.idle`"""
    print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
