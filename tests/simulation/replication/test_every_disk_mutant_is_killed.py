"""This room proves that walks with disks, and tests of single files, notice each missing rule."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.replication import producing
from tests.simulation.replication.disk_mutants import MUTANTS
from tests.simulation.replication.disks import run_seed
from tests.simulation.replication.runner import Outcome
from tests.unit.broker_core import test_a_log_begins_where_its_leader_says as starts
from tests.unit.broker_core import test_what_an_election_lost_is_told as told
from tests.unit.broker_data_plane import test_a_leader_with_a_bad_batch_gives_way as bad_batch
from tests.unit.broker_data_plane import test_a_log_that_cannot_be_used_leads_nothing as failed
from tests.unit.broker_data_plane import test_batches_behind_a_refused_one_are_refused_alike as refused
from tests.unit.broker_data_plane import test_followers_fetch_by_session as sessions
from tests.unit.broker_data_plane import test_what_was_given_up_leads_nothing as given_up
from tests.unit.broker_log import test_another_history_is_not_committed as another
from tests.unit.broker_log import test_damage_is_found_when_a_log_is_opened as damage
from tests.unit.broker_log import test_what_is_believed_is_looked_at_when_it_is_read as believed
from tests.unit.controller_core import test_no_turn_changes_more_than_it_may as bounded

KILLED_BY = {
    "age_closes_nothing": 149,
    "bad_batch_kept": 145,
    "confess_nothing": 25,
    "cut_in_memory_first": 55,
    "damage_kept": 25,
    "cuts_untold": 27,
    "doubt_is_the_returns": 8787,
    "failed_is_untold": 2877,
    "fsync_believed": 55,
    "note_nothing": 33,
    "offsets_believed": 25,
    "old_is_kept": 233,
    "ps_leader_only": 3,
    "ps_not_rolled": 147,
    "settings_of_the_start": 118,
    "start_above_hw": 15,
    "start_forgotten": 57,
    "start_not_followed": 15,
    "tail_is_believed": 287,
    "torn_is_all": 33,
    "unopened_is_forgotten": 447,
    "unusable_untold": 21,
    "young_goes": 353,
}
"""A seed whose walk breaks without the rule; when walks change, one of SEEDS takes its place."""

KILLED_BY_PRODUCING = {
    "gap_is_told": 1,
    "one_line_for_all": 352,
    "ps_forgotten": 2,
    "ps_unread": 29,
    "retention_above_hw": 175,
    "window_is_short": 116,
}
"""The same of walks with a producer."""

SEEDS = 200

SCENES: dict[str, Callable[[Path], None]] = {
    "crash_is_a_cut": lambda _folder: told.test_what_a_crash_of_the_machine_took_is_not_said_to_be_cut(),
    "grown_is_uncut": lambda _folder: (
        told.test_what_its_log_has_grown_by_since_does_not_hide_the_cut_from_the_next_process(leader=1)
    ),
    "greeted_at_once": lambda _folder: (
        bounded.test_who_lost_its_tail_is_told_that_it_was_heard_when_all_its_elections_are_over()
    ),
    "cut_is_told": lambda folder: asyncio.run(
        refused.test_one_that_was_stored_here_refused_and_cut_off(folder, 1)
    ),
    "epochs_believed": lambda folder: damage.test_a_flipped_bit_anywhere_ends_the_log_before_its_batch(
        folder, damage.LEADER_EPOCH, 9
    ),
    "epoch_untold": lambda folder: asyncio.run(
        sessions.test_who_is_level_is_answered_once_in_each_leader_epoch(folder)
    ),
    "failed_leads": lambda folder: asyncio.run(
        failed.test_a_log_that_cannot_be_opened_is_hosted_as_failed(folder)
    ),
    "forgotten_diverges": lambda _folder: (
        starts.test_whoever_stands_where_a_forgotten_epoch_ended_lacks_nothing()
    ),
    "gap_is_taken": lambda folder: asyncio.run(
        refused.test_a_new_producer_of_a_topic_whose_records_were_deleted(folder)
    ),
    "given_up_leads": lambda folder: asyncio.run(
        given_up.test_it_counts_as_failed_where_an_older_row_has_it_in_sync(folder, 1)
    ),
    "given_up_is_forgotten": lambda folder: asyncio.run(
        given_up.test_who_is_killed_as_soon_as_it_gave_up_remembers_it(folder)
    ),
    "withheld_is_forgotten": lambda folder: asyncio.run(
        given_up.test_its_next_process_confesses_and_copies(folder)
    ),
    "last_gives_up": lambda folder: asyncio.run(
        bad_batch.test_the_last_in_sync_replica_goes_on_with_what_it_has(folder)
    ),
    "mark_outlives_log": lambda folder: (
        another.test_a_start_after_a_kill_takes_no_other_history_for_committed(folder, another._cut, 12)
    ),
    "place_believed": (believed.test_a_batch_that_moved_the_end_is_found_before_anything_is_stored_behind_it),
    "stranger_is_taken": lambda folder: asyncio.run(
        refused.test_a_producer_that_nobody_here_knows_sends_again_what_is_not_its_first_batch(folder)
    ),
    "noted_is_believed": bad_batch.test_the_next_start_believes_nothing_of_a_log_that_gave_way,
    "nameless_is_nothing": lambda folder: (
        damage.test_records_that_nobody_can_name_the_partition_of_are_confessed_for_all(folder, Path.unlink)
    ),
}
"""What walks find only slowly."""


def test_every_mutant_has_its_proof() -> None:
    assert KILLED_BY.keys() | KILLED_BY_PRODUCING.keys() | SCENES.keys() == MUTANTS.keys()


@pytest.mark.parametrize("name", sorted(SCENES))
def test_the_scene_of_the_rule_fails_without_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    SCENES[name](tmp_path / "with")
    (tmp_path / "without").mkdir()
    with MUTANTS[name](), pytest.raises(Exception):  # noqa: B017 (an invariant or the scene's own assertion)
        SCENES[name](tmp_path / "without")


@pytest.mark.parametrize("name", sorted(KILLED_BY))
def test_a_walk_breaks_without_the_rule(name: str) -> None:
    assert is_noticed(name, KILLED_BY[name], run_seed), f"{name} survives {SEEDS} walks"


@pytest.mark.parametrize("name", sorted(KILLED_BY_PRODUCING))
def test_a_walk_with_a_producer_breaks_without_the_rule(name: str) -> None:
    first = KILLED_BY_PRODUCING[name]
    assert is_noticed(name, first, producing.run_seed), f"{name} survives {SEEDS} walks with a producer"


def is_noticed(name: str, first: int, run: Callable[[int], Outcome]) -> bool:
    """Whether a walk breaks without the rule, the one of seed `first` or another one."""
    with MUTANTS[name]():
        return any(run(seed).violation for seed in (first, *range(SEEDS)))
