"""This room runs the benchmarks one by one and prints their tables: `python -m tests.benchmarks [NAME …]`.

With BESIDE=FOLDER, another checkout, each benchmark runs there right after it ran here: two tables of one run
say more than two runs of different days. With WITHOUT_KAFKA=1 Apache Kafka is left out.
"""

import importlib
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

BENCHMARKS = (
    *("produce_consume", "sdk", "native_groups", "failover", "commits", "elections", "pages", "idle"),
    "spread_elections",
    *("heartbeats", "classic_groups", "kafka_commits", "idle_members", "assignors"),
    *("raw_produce", "raw_fetch", "whole_cluster", "acknowledged_by_all", "broker_failover"),
    *("moves", "compaction"),
)
"""Modules of this folder, each with `run(home) -> lines`; one at a time, so that none disturbs another."""


def main() -> int:
    """Exit code 1 if a benchmark could not be run; the others are run all the same."""
    home = Path(os.environ.get("MUSTER_HOME", ".muster"))
    # So that an interrupted run still stops its processes and removes their data.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted = sys.argv[1:] or BENCHMARKS
    beside = os.environ.get("BESIDE", "")
    failed = 0
    for name in wanted:
        print(f"\n== {name}", flush=True)
        try:
            lines = importlib.import_module(f"tests.benchmarks.{name}").run(home)
        except Exception:
            traceback.print_exc()
            failed += 1
            continue
        print("\n".join(lines), flush=True)
        if beside:
            failed += run_there(Path(beside), name, home)
    return 1 if failed else 0


def run_there(folder: Path, name: str, home: Path) -> int:
    """Run one benchmark of another checkout with the same Python; 1 if it could not be run."""
    print(f"-- {name} in {folder}", flush=True)
    environment = {**os.environ, "MUSTER_HOME": str(home.resolve()), "BESIDE": ""}
    command = [sys.executable, "-m", "tests.benchmarks", name]
    return int(subprocess.run(command, cwd=folder, env=environment, check=False).returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
