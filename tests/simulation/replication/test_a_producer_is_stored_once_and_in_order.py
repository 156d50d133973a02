"""This room walks brokers, logs and disks under an idempotent producer: `make sim` runs more seeds."""

import pytest

from tests.simulation.replication.producing import run_seed

SEEDS, BLOCK = 45, 15


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_whatever_it_wrote_is_there_once_in_order_and_nothing_else_is(first: int) -> None:
    for seed in range(first, first + BLOCK):
        outcome = run_seed(seed)
        assert not outcome.violation, (
            f"{outcome.violation}; replay: python -m tests.simulation.run producing --seed {seed}"
        )
