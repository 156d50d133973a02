"""This room walks the real cores of controller and broker through faults: `make sim` runs more seeds."""

import pytest

from tests.simulation.replication.runner import run_seed

SEEDS, BLOCK = 300, 25


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_no_walk_breaks_an_invariant_and_every_fair_run_settles(first: int) -> None:
    for seed in range(first, first + BLOCK):
        outcome = run_seed(seed)
        assert not outcome.violation, (
            f"{outcome.violation}; replay: python -m tests.simulation.run replication --seed {seed}"
        )


@pytest.mark.parametrize("seed", [1_484, 2_264])
def test_what_once_failed_does_so_no_more(seed: int) -> None:
    """1484: who is elected begins again behind the leader before; 2264: elections become clean meanwhile."""
    assert not run_seed(seed).violation
