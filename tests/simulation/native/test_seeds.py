"""This room runs the native simulation's seeds; `make sim SEEDS=…` runs more of them."""

from functools import cache

import pytest

from tests.simulation.native.runner import Outcome, run_seed
from tests.simulation.native.world import AGEING

SEEDS = 300
SEEDS_A_TEST = 20
LOOKED_INTO = 90


@cache
def outcome_of(seed: int) -> Outcome:
    """The first seeds are looked at twice."""
    return run_seed(seed)


def is_looked_into(seed: int) -> bool:
    return seed < LOOKED_INTO or seed % 20 in AGEING


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_after_any_faults_every_partition_is_fetched_again(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        outcome = outcome_of(seed) if is_looked_into(seed) else run_seed(seed)
        assert not outcome.violation, (
            f"{outcome.violation}; replay: python -m tests.simulation.run native --seed {seed}\n"
            + "\n".join(outcome.trail[-40:])
        )


def test_a_seed_replays_to_the_letter() -> None:
    assert run_seed(11) == outcome_of(11)


def test_the_seeds_contain_what_they_are_meant_to_survive() -> None:
    looked_into = filter(is_looked_into, range(SEEDS))
    trails = "\n".join(line for seed in looked_into for line in outcome_of(seed).trail)
    for fault in (
        "crashes",
        "breaks",
        "is paused",
        "leaves",
        "is mute",
        "starts again",
        "calls itself",
        "subscribes",
        "is stopped",
        "reach no database",
        "of the next commit",
        "leaps by",
        "is not heard",
        "its words are lost",
        "is rolled back",
        "is out of range",
        "grows",
        "PreparingRebalance",
        "everybody is away",
        "commits from outside",
        "knocks",
        "tool deletes",
        "request remove_member: done",
        "request rebalance: done",
        "request reset_offsets: refused",
        "QuarantineEnded",
        "is drained",
        "everybody goes",
        "is removed, to be added again",
        "the group expires",
        "expires",
        "that was removed goes",
    ):
        assert fault in trails, fault
