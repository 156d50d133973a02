"""This room walks brokers that compact their logs, and shows that each missing rule is noticed.

`make sim` runs more seeds.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.replication.compacting import run_seed
from tests.simulation.replication.compaction_mutants import MUTANTS
from tests.unit.broker_log import test_the_last_record_of_a_key_stays as keys

SEEDS, BLOCK = 30, 15

KILLED_BY = {
    "above_hw": 7,
    "clean_goes": 6,
    "cleaned_believed": 70,
    "codec_kept": 9,
    "last_goes": 0,
    "no_filler": 4,
    "nothing_sent": 4,
    "swaps_dropped": 6,
    "tombstones_at_once": 6,
    "tombstones_with_the_second_pass": 6,
}
"""A seed whose walk breaks without the rule; when walks change, one of LOOKED_AT takes its place."""

LOOKED_AT = 120


def killed_at_any_step(folder: Path) -> None:
    """Of a pass that makes one segment of several."""
    for step in range(14):
        log = folder / str(step)
        log.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            keys.test_a_kill_at_any_step_costs_nothing(log, step, True, patch)


SCENES: dict[str, Callable[[Path], None]] = {
    "deleted_first": killed_at_any_step,
    "not_swapped": keys.test_a_tombstone_stays_for_its_time_and_then_goes,
    "passes_uncut": lambda folder: keys.test_a_pass_over_what_is_gone_counts_no_more(folder, is_crash=False),
}
"""What walks find only slowly."""


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_no_walk_loses_a_value_or_brings_back_what_was_deleted(first: int) -> None:
    for seed in range(first, first + BLOCK):
        outcome = run_seed(seed)
        assert not outcome.violation, (
            f"{outcome.violation}; replay: python -m tests.simulation.run compacting --seed {seed}"
        )


def test_every_mutant_has_its_proof() -> None:
    assert KILLED_BY.keys() | SCENES.keys() == MUTANTS.keys()


@pytest.mark.parametrize("name", sorted(KILLED_BY))
def test_a_walk_breaks_without_the_rule(name: str) -> None:
    with MUTANTS[name]():
        noticed = any(run_seed(seed).violation for seed in (KILLED_BY[name], *range(LOOKED_AT)))
    assert noticed, f"{name} survives {LOOKED_AT} walks"


@pytest.mark.parametrize("name", sorted(SCENES))
def test_the_scene_of_the_rule_fails_without_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    SCENES[name](tmp_path / "with")
    (tmp_path / "without").mkdir()
    with MUTANTS[name](), pytest.raises((AssertionError, KeyError)):
        SCENES[name](tmp_path / "without")
