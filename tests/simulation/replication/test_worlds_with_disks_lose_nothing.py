"""This room walks brokers with real logs and failing disks: `make sim` runs more seeds."""

import pytest

from tests.simulation.replication.disks import run_seed

SEEDS, BLOCK = 45, 15


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_no_walk_loses_what_was_acknowledged_and_every_fair_run_settles(first: int) -> None:
    for seed in range(first, first + BLOCK):
        outcome = run_seed(seed)
        assert not outcome.violation, (
            f"{outcome.violation}; replay: python -m tests.simulation.run disks --seed {seed}"
        )


@pytest.mark.parametrize("seed", [20_295])
def test_what_once_failed_does_so_no_more(seed: int) -> None:
    """20295: a log whose disk refused a cut is confessed, and leaves the ISR whatever remains."""
    assert not run_seed(seed).violation
