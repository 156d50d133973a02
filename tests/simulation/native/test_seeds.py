"""This room runs the native simulation's seeds; `make sim SEEDS=…` runs more of them."""

import pytest

from tests.simulation.native.runner import run_seed

SEEDS = 120
SEEDS_A_TEST = 20


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_after_any_faults_every_partition_is_fetched_again(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        outcome = run_seed(seed)
        assert not outcome.violation, (
            f"{outcome.violation}; replay: python -m tests.simulation.run native --seed {seed}\n"
            + "\n".join(outcome.trail[-40:])
        )


def test_a_seed_replays_to_the_letter() -> None:
    assert run_seed(11) == run_seed(11)


def test_the_seeds_contain_what_they_are_meant_to_survive() -> None:
    trails = "\n".join(line for seed in range(40) for line in run_seed(seed).trail)
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
    ):
        assert fault in trails, fault
