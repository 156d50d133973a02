"""This room is `make beside`: random walks of groups at Muster and at Apache Kafka, which must answer alike.

python -m tests.beside_kafka.run --seeds 100 [--first 7]
"""

import argparse
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.acceptance.apache_kafka import apache_kafka
from tests.acceptance.story import create, running_stack
from tests.beside_kafka.doors import Door, coordinator
from tests.beside_kafka.group_walk import GroupWalk

TOPIC = "walked"
STEPS = 60


def address(bootstrap: str) -> tuple[str, int]:
    """The first of them."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    return host, int(port)


@contextlib.contextmanager
def both(folder: Path) -> Iterator[tuple[str, str]]:
    """Where clients begin: a stack with one broker, and one broker of Apache Kafka; both have the topic."""
    with running_stack(folder / "home") as stack, apache_kafka(folder / "kafka") as kafka:
        begin = stack["bootstrap"], kafka
        for bootstrap in begin:
            create(bootstrap, TOPIC, 3)
        yield begin


def walked(begin: tuple[str, str], seed: int, steps: int = STEPS) -> tuple[GroupWalk, list[str]]:
    """The walk of one seed, and the differences at which it ended."""
    group = f"walk-{seed}-{time.time_ns()}"
    with contextlib.ExitStack() as stack:
        doors = []
        for bootstrap in begin:
            asked = stack.enter_context(contextlib.closing(Door(address(bootstrap))))
            doors.append(stack.enter_context(contextlib.closing(Door(coordinator(asked, group)))))
        walk = GroupWalk((doors[0], doors[1]), group, TOPIC, random.Random(seed))
        return walk, walk.walk(steps)


def main(arguments: list[str]) -> int:
    """Run what was asked for; 1 if any seed differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.beside_kafka.run")
    parser.add_argument("--seeds", type=int, default=100, help="how many walks")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first")
    asked = parser.parse_args(arguments)
    differ, steps, begun = 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder, both(Path(folder).resolve()) as begin:
        for seed in range(asked.first, asked.first + asked.seeds):
            walk, found = walked(begin, seed)
            steps += len(walk.steps)
            if found:
                differ += 1
                print(f"seed {seed}:", *found, *walk.steps, sep="\n    ", flush=True)
    print(f"{asked.seeds} walks, {steps} questions, {differ} differ, {time.monotonic() - begun:.0f} s")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
