"""This room is `make sim`: many seeds of the simulations; a failing seed prints the command that replays it.

python -m tests.simulation.run [native|replication|disks] --seeds 300 [--seed 7]
"""

import argparse
import importlib
import sys
import time

SIMULATIONS = {
    "native": "tests.simulation.native.runner",
    "replication": "tests.simulation.replication.runner",
    "disks": "tests.simulation.replication.disks",
}


def main(arguments: list[str]) -> int:
    """Run what was asked for; 1 if any seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run")
    parser.add_argument("simulation", nargs="?", choices=sorted(SIMULATIONS))
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds of each simulation")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one alone, with its whole trail")
    asked = parser.parse_args(arguments)
    names = [asked.simulation] if asked.simulation else sorted(SIMULATIONS)
    if asked.seed is not None and len(names) > 1:
        parser.error("--seed needs the name of a simulation")
    if asked.seed is not None:
        return _replay(names[0], asked.seed)
    return max(_run(name, range(asked.first, asked.first + asked.seeds)) for name in names)


def _run(name: str, seeds: range) -> int:
    run_seed = importlib.import_module(SIMULATIONS[name]).run_seed
    started = time.monotonic()
    failed = 0
    for seed in seeds:
        outcome = run_seed(seed)
        if outcome.violation:
            failed += 1
            print(f"{name}: seed {seed}: {outcome.violation}")
            print(f"    replay: python -m tests.simulation.run {name} --seed {seed}", flush=True)
    took = time.monotonic() - started
    print(f"{name}: {len(seeds)} seeds, {failed} failed, {took:.0f} s", flush=True)
    return 1 if failed else 0


def _replay(name: str, seed: int) -> int:
    outcome = importlib.import_module(SIMULATIONS[name]).run_seed(seed)
    for line in outcome.trail:
        print(line)
    print(f"{name}: seed {seed}: {outcome.violation or 'all is well'}")
    return 1 if outcome.violation else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
