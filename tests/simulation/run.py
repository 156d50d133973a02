"""This room is `make sim`: many seeds of the simulations; a failing seed prints the command that replays it.

python -m tests.simulation.run [NAME of SIMULATIONS] --seeds 300 [--seed 7]
"""

import argparse
import importlib
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

SIMULATIONS = {
    "classic": "tests.simulation.classic.runner",
    "leases": "tests.simulation.leases.runner",
    "native": "tests.simulation.native.runner",
    "replication": "tests.simulation.replication.runner",
    "disks": "tests.simulation.replication.disks",
    "compacting": "tests.simulation.replication.compacting",
    "producing": "tests.simulation.replication.producing",
    "set-backs": "tests.simulation.replication.set_backs",
}
SEEDS_AT_ONCE = 25


def main(arguments: list[str]) -> int:
    """Run what was asked for; 1 if any seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run")
    parser.add_argument("simulation", nargs="?", choices=sorted(SIMULATIONS))
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds of each simulation")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one alone, with its whole trail")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many processes")
    asked = parser.parse_args(arguments)
    names = [asked.simulation] if asked.simulation else sorted(SIMULATIONS)
    if asked.seed is not None and len(names) > 1:
        parser.error("--seed needs the name of a simulation")
    if asked.seed is not None:
        return _replay(names[0], asked.seed)
    seeds = range(asked.first, asked.first + asked.seeds)
    return max(_run(name, seeds, asked.jobs) for name in names)


def _run(name: str, seeds: range, jobs: int) -> int:
    started = time.monotonic()
    chunks = [seeds[at : at + SEEDS_AT_ONCE] for at in range(0, len(seeds), SEEDS_AT_ONCE)]
    failed = 0
    with ProcessPoolExecutor(jobs, initializer=_prepare) as pool:
        for found in pool.map(partial(_failures, name), chunks):
            failed += len(found)
            for seed, violation in found:
                print(f"{name}: seed {seed}: {violation}")
                print(f"    replay: python -m tests.simulation.run {name} --seed {seed}", flush=True)
    took = time.monotonic() - started
    speed = len(seeds) / max(took, 0.001)
    print(f"{name}: {len(seeds)} seeds, {failed} failed, {took:.0f} s, {speed:.0f} seeds/s", flush=True)
    return 1 if failed else 0


def _failures(name: str, seeds: range) -> list[tuple[int, str]]:
    run_seed = importlib.import_module(SIMULATIONS[name]).run_seed
    outcomes = ((seed, run_seed(seed).violation) for seed in seeds)
    return [(seed, violation) for seed, violation in outcomes if violation]


def _replay(name: str, seed: int) -> int:
    _prepare()
    outcome = importlib.import_module(SIMULATIONS[name]).run_seed(seed)
    for line in outcome.trail:
        print(line)
    print(f"{name}: seed {seed}: {outcome.violation or 'all is well'}")
    return 1 if outcome.violation else 0


def _prepare() -> None:
    """The shells of the control plane are Django's apps; no database is asked."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    os.environ.setdefault("DATABASE_URL", "postgres://nobody@127.0.0.1:1/nothing")
    import django

    django.setup()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
