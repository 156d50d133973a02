"""This room sets the database back in the middle of walks: `make sim` runs more seeds."""

from unittest.mock import patch

import pytest

from controller.core import recount
from controller.core.draft import Draft
from controller.core.election import Choice
from muster.messages.link.rows import PartitionRow
from tests.simulation.replication.recount_mutants import MUTANTS
from tests.simulation.replication.set_backs import run_seed

SEEDS, BLOCK = 150, 25

KILLED_BY = {
    "absent_are_forgotten": 53,
    "end_before_epoch": 377,
    "isr_is_believed": 0,
    "led_is_forgotten": 222753,
}
"""Seeds that miss the rule; when walks change, one of SEEDS takes its place."""


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_no_acknowledged_record_is_lost_unless_that_is_noted(first: int) -> None:
    for seed in range(first, first + BLOCK):
        outcome = run_seed(seed)
        assert not outcome.violation, (
            f"{outcome.violation}; replay: python -m tests.simulation.run set-backs --seed {seed}"
        )


@pytest.mark.parametrize("name", sorted(KILLED_BY))
def test_a_walk_breaks_without_the_rule(name: str) -> None:
    with MUTANTS[name]():
        assert any(run_seed(seed).violation for seed in (KILLED_BY[name], *range(SEEDS)))


def test_walks_elect_without_who_is_away_where_nothing_was_lost() -> None:
    proven, elected = recount._proven, []

    def counted(draft: Draft, row: PartitionRow, *told: object) -> Choice | None:
        choice: Choice | None = proven(draft, row, *told)  # type: ignore[arg-type]
        if choice is not None:
            elected.append(row.key)
        return choice

    with patch.object(recount, "_proven", counted):
        violations = [run_seed(seed).violation for seed in range(1, SEEDS, 3)]
    assert not any(violations) and len(elected) >= 5
