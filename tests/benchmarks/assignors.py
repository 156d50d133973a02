"""This room measures assignors: 10,000 partitions to 1,000 members, and again when five of them have left."""

import random
import time
from dataclasses import replace
from pathlib import Path

from coordinator.core.assignors import redundant
from coordinator.core.assignors.interface import Question, Shares
from coordinator.core.assignors.registry import ASSIGNORS
from tests.simulation.native.topics import layout

PARTITIONS, MEMBERS, LEAVE, RACKS = 10_000, 1_000, 5, 6
REACH_MS = 150


def run(home: Path) -> list[str]:
    """A line for each assignor, in ms of processor time; with standbys where the assignor has some."""
    lines = [
        f"{PARTITIONS:,} partitions of one topic, {MEMBERS:,} members in {RACKS} racks (reach {REACH_MS} ms)",
        "assignor        first   again   moved",
    ]
    first = _question()
    for name in sorted(ASSIGNORS):
        shares, first_ms = _measured(name, first)
        again = _after_some_left(first, *shares)
        (owned, _), again_ms = _measured(name, again)
        before = again.owner_of
        moved = sum(before.get(one) != member for member, mine in owned.items() for one in mine)
        lines.append(f"{name:14} {first_ms:6.0f}  {again_ms:6.0f}  {moved:6,}")
    return lines


def _question() -> Question:
    chance = random.Random(7)
    racks = [f"rack-{number}" for number in range(RACKS)]
    held = tuple(frozenset(chance.sample(racks, 3)) for _ in range(PARTITIONS))
    names = [f"member-{number:04}" for number in range(MEMBERS)]
    return Question(
        {name: {"orders": 1} for name in names},
        {"orders": replace(layout("orders", 1, PARTITIONS), racks=held)},
        rack_of={name: chance.choice(racks) for name in names},
        copies=2,
        willing=frozenset(names),
    )


def _after_some_left(question: Question, owned: Shares, standbys: Shares) -> Question:
    left = dict(list(question.members.items())[LEAVE:])
    owner_of = {one: member for member, mine in owned.items() if member in left for one in mine}
    present = {member: mine for member, mine in standbys.items() if member in left}
    return replace(question, members=left, owner_of=owner_of, willing=frozenset(left), standbys=present)


def _measured(name: str, question: Question) -> tuple[tuple[Shares, Shares], float]:
    began = time.process_time()
    owned = ASSIGNORS[name](question)
    standbys = redundant.stand_by(question, owned) if name == "redundant" else {}
    return (owned, standbys), (time.process_time() - began) * 1000
