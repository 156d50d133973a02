"""This room is `make beside`: random walks at Muster and at Apache Kafka, which must answer alike.

python -m tests.beside_kafka.run groups|log|admin --seeds 100 [--first 7] [--steps 60] [--brokers 3]
"""

import argparse
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.acceptance.apache_kafka import apache_kafka
from tests.acceptance.story import create, running_stack
from tests.beside_kafka.admin_walk import AdminWalk
from tests.beside_kafka.doors import Door, coordinator
from tests.beside_kafka.group_walk import GroupWalk
from tests.beside_kafka.log_walk import LogWalk

TOPIC = "walked"
STEPS = 60

Begin = tuple[str, str]
"""Where clients of Muster and of Kafka begin: a broker of each."""


def address(bootstrap: str) -> tuple[str, int]:
    """The first of them."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    return host, int(port)


@contextlib.contextmanager
def both(folder: Path, brokers: int = 1) -> Iterator[Begin]:
    """Where clients begin: a stack and an Apache Kafka with so many brokers each; both have the topic."""
    with running_stack(folder / "home", brokers) as stack, apache_kafka(folder / "kafka", brokers) as kafka:
        begin = stack["bootstrap"], kafka
        for bootstrap in begin:
            create(bootstrap, TOPIC, 3)
        yield begin


Opened = contextlib.ExitStack


def _doors(opened: Opened, begin: Begin) -> tuple[Door, Door]:
    ours, theirs = (opened.enter_context(contextlib.closing(Door(address(one)))) for one in begin)
    return ours, theirs


def _coordinators(opened: Opened, doors: tuple[Door, Door], group: str) -> tuple[Door, Door]:
    ours, theirs = (
        opened.enter_context(contextlib.closing(Door(coordinator(door, group)))) for door in doors
    )
    return ours, theirs


def _of_a_group(opened: Opened, begin: Begin, seed: int) -> GroupWalk:
    group = f"walk-{seed}-{time.time_ns()}"
    coordinators = _coordinators(opened, _doors(opened, begin), group)
    return GroupWalk(coordinators, group, TOPIC, random.Random(seed))


def _of_logs(opened: Opened, begin: Begin, seed: int) -> LogWalk:
    doors, readers = _doors(opened, begin), _doors(opened, begin)
    return LogWalk(doors, random.Random(seed), readers=readers, topic=f"walk-{seed}-{time.time_ns()}")


def _of_operators(opened: Opened, begin: Begin, seed: int) -> AdminWalk:
    doors, prefix = _doors(opened, begin), f"walk-{seed}-{time.time_ns()}-"
    first = prefix + "0"
    node = coordinator(doors[0], first)
    other = coordinator(doors[1], first)
    groups = [
        one for one in (f"{prefix}{number}" for number in range(30))
        if coordinator(doors[0], one) == node and coordinator(doors[1], one) == other
    ]  # fmt: skip
    coordinators = _coordinators(opened, doors, first)
    at_a_node = bool(seed % 2)
    if at_a_node:
        doors = opened.enter_context(contextlib.closing(Door(node))), doors[1]
    return AdminWalk(
        doors, random.Random(seed), prefix=prefix, coordinators=coordinators, groups=tuple(groups[:3]),
        at_a_node=at_a_node,
    )  # fmt: skip


WORLDS: Final[Mapping[str, Callable[[Opened, Begin, int], Any]]] = MappingProxyType(
    {"groups": _of_a_group, "log": _of_logs, "admin": _of_operators}
)


def walked(begin: Begin, seed: int, steps: int = STEPS, world: str = "groups") -> tuple[Any, list[str]]:
    """The walk of one seed, and the differences at which it ended."""
    with Opened() as opened:
        walk = WORLDS[world](opened, begin, seed)
        return walk, [str(one) for one in walk.walk(steps)]


def main(arguments: list[str]) -> int:
    """Run what was asked for; 1 if any seed differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.beside_kafka.run")
    parser.add_argument("worlds", nargs="*", default=list(WORLDS), help=f"which: {', '.join(WORLDS)}")
    parser.add_argument("--seeds", type=int, default=100, help="how many walks of each")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first")
    parser.add_argument(
        "--brokers", type=int, default=1, help="how many each has; of logs they ask the first"
    )
    parser.add_argument("--steps", type=int, default=STEPS, help="how long each is")
    asked = parser.parse_args(arguments)
    differ, steps, begun, used = 0, 0, time.monotonic(), Counter[str]()
    with tempfile.TemporaryDirectory() as folder, both(Path(folder).resolve(), asked.brokers) as begin:
        for world in asked.worlds:
            for seed in range(asked.first, asked.first + asked.seeds):
                walk, found = walked(begin, seed, asked.steps, world)
                steps += len(walk.steps)
                used.update(getattr(walk, "used", ()))
                if found:
                    differ += 1
                    print(f"{world}, seed {seed}:", *found, *walk.steps, sep="\n    ", flush=True)
    for row, count in used.most_common():
        print(f"{count:6} times: {row}")
    took_s = time.monotonic() - begun
    print(f"{asked.seeds} walks of {asked.worlds}, {steps} questions, {differ} differ, {took_s:.0f} s")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
