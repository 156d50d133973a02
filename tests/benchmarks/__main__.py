"""This room runs the benchmarks one by one and prints their tables: `python -m tests.benchmarks [NAME …]`."""

import importlib
import os
import signal
import sys
import traceback
from pathlib import Path

BENCHMARKS = ("produce_consume", "members", "commits", "elections", "pages", "idle")
"""Modules of this folder, each with `run(home) -> lines`; one at a time, so that none disturbs another."""


def main() -> int:
    """Exit code 1 if a benchmark could not be run; the others are run all the same."""
    home = Path(os.environ.get("MUSTER_HOME", ".muster"))
    # So that an interrupted run still stops its processes and removes their data.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted = sys.argv[1:] or BENCHMARKS
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
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
