"""This room proves that walks and scenarios notice each missing rule (replication.md section 8)."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.scenarios.replication import (
    test_a_log_that_goes_tells_what_it_held as gone,
)
from tests.scenarios.replication import (
    test_a_lost_tail_has_no_seat as tails,
)
from tests.scenarios.replication import (
    test_a_proposal_ends_only_by_a_true_end as proposals,
)
from tests.scenarios.replication import (
    test_an_old_controllers_snapshot_is_refused as old_controller,
)
from tests.scenarios.replication import (
    test_numbers_on_the_data_path_fence as numbers,
)
from tests.scenarios.replication import (
    test_two_processes_share_an_id as twins,
)
from tests.scenarios.replication import (
    test_what_is_left_in_an_old_link_is_never_read as links,
)
from tests.scenarios.replication import (
    test_who_was_fenced_stays_fenced as fenced,
)
from tests.simulation.replication.recount_mutants import MUTANTS
from tests.simulation.replication.runner import run_seed
from tests.simulation.replication.test_small_worlds_of_moves_are_searched_whole import (
    SEARCHED,
    search_through,
)
from tests.unit.broker_core import test_a_log_begins_where_its_leader_says as begins
from tests.unit.broker_core import test_a_log_is_shown_where_a_row_is_unproven as shown
from tests.unit.broker_core import test_a_reader_is_sent_to_the_nearest_replica as reading
from tests.unit.broker_core import test_replicas_that_come_are_throttled as throttling
from tests.unit.broker_core import test_what_an_election_lost_is_told as losses
from tests.unit.controller_core import test_a_broker_leaves as leaving
from tests.unit.controller_core import test_a_broker_says_hello as hellos
from tests.unit.controller_core import test_a_partition_is_moved as moves
from tests.unit.controller_core import test_a_plan_is_run as plans
from tests.unit.controller_core import test_leaders_are_elected_on_request as elections
from tests.unit.controller_core import test_leaders_come_back_to_who_stands_first as returns
from tests.unit.controller_core import test_no_turn_changes_more_than_it_may as bounded
from tests.unit.controller_core import test_partitions_are_removed as removals
from tests.unit.controller_core import test_replicas_show_their_logs_behind_a_lift as recounts
from tests.unit.controller_core import test_shown_logs_are_judged_and_forgotten as judged
from tests.unit.controller_core import test_who_was_in_sync_is_believed_where_nothing_was_lost as believed

SEEDS = 300

KILLED_BY = {
    "admit_no_hw": 48,
    "adopt_anything": 30,
    "ap_no_version": 785,
    "bep_ap": 393,
    "cut_too_far": 84,
    "diverging_progress": 5,
    "diverging_twice": 10710,
    "drain_keeps_leaders": 104,
    "epoch_begins_again": 228,
    "epoch_begins_anew": 178,
    "epoch_kept": 9,
    "floor_of_the_cluster": 30,
    "growth_begins_at_0": 7,
    "held_is_forgotten": 774,
    "hw_under_min": 47,
    "inc_not_death": 39,
    "latest_at_once": 15,
    "leaving_is_live": 9,
    "lost_kept": 39,
    "min_not_heard": 30,
    "moves_outlive_topics": 25,
    "never_answer": 21,
    "no_floor": 36,
    "old_link_read": 15,
    "parting_is_guessed": 224,
    "pend_dropped": 33,
    "plan_ends_without_its_moves": 59,
    "plan_runs_on_in_a_pause": 5,
    "plan_stands_still": 50,
    "rate_of_the_plan_alone": 50,
    "removed_is_kept": 388,
    "removed_leads_on": 28,
    "speak_first": 355,
    "switch_early": 333,
    "takeover_forgets": 2,
    "throttle_left_behind": 50,
    "trunc_hw": 4,
    "two_active": 19,
    "unregister_holders": 18,
    "unregister_keeps_moves": 858,
    "unregister_live": 26,
}
"""Of rules that few walks miss, a seed that does; when walks change, one of SEEDS takes its place."""

SCENES: dict[str, Callable[[], None]] = {
    "admit_no_start": numbers.test_nobody_is_admitted_below_the_start_of_the_leaders_epoch,
    "damage_kept": hellos.test_a_damaged_log_leaves_the_isr_below_the_floor_and_the_others_stay,
    "answer_any": proposals.test_the_late_answer_to_one_proposal_does_not_end_the_next,
    "bep_fetch": numbers.test_a_fetch_of_an_incarnation_before_the_machine_crash_makes_no_progress,
    "fetch_no_epoch": numbers.test_a_leader_refuses_a_fetch_of_another_leader_epoch,
    "hw_before_truncation": numbers.test_the_high_watermark_of_a_diverging_answer_is_not_taken,
    "obey_older": old_controller.test_a_follower_does_not_go_back_to_the_epoch_of_an_old_controller,
    "progress_kept": numbers.test_progress_of_an_earlier_leadership_does_not_count,
    "propose_early": proposals.test_nothing_is_proposed_on_a_new_link_before_its_snapshot_is_applied,
    "resp_no_epoch": numbers.test_an_answer_of_an_earlier_leader_epoch_is_dropped,
    "fenced_are_live": fenced.test_a_takeover_does_not_elect_a_broker_that_was_dead_before_it,
    "twin_admitted": twins.test_the_empty_one_does_not_take_the_seat_of_the_one_that_has_the_records,
    "cancel_empties_isr": moves.test_a_cancel_that_leaves_fewer_than_the_floor_in_sync_is_refused,
    "drain_waits_for_the_dead": moves.test_a_kept_replica_that_is_dead_blocks_no_drain,
    "floor_counts_adding": moves.test_from_one_replica_to_two_the_floor_is_that_of_one_until_the_switch,
    "follower_out_of_range": reading.test_what_a_follower_has_deleted_its_leader_may_still_have,
    "throttle_isr": throttling.test_members_of_the_isr_and_replicas_that_nobody_adds_are_never_throttled,
    "plan_asks_changed": plans.test_what_changed_since_the_review_is_skipped_and_an_election_is_no_change,
    "plan_runs_unapproved": plans.test_a_plan_is_computed_reviewed_and_moves_nothing_before_it_runs,
    "request_forgotten": bounded.test_a_partition_that_is_named_twice_is_refused_in_whatever_turn_it_is_named,
    "switch_no_epoch": moves.test_a_leader_that_stays_keeps_leading_under_another_epoch,
    "insync_begins_again": (
        begins.test_whoever_deleted_in_a_history_that_was_lost_begins_again_where_its_leader_does
    ),
    "deleted_stays_away": (
        begins.test_whoever_deleted_in_a_history_that_was_lost_begins_again_where_its_leader_does
    ),
    "gone_is_untold": gone.test_whoever_comes_back_when_the_partition_is_elsewhere_tells_what_its_log_held,
    "start_is_forgotten": (
        gone.test_whoever_was_elected_and_died_behind_its_log_before_it_was_heard_tells_where_it_began
    ),
    "next_one_answers": losses.test_a_partition_that_got_the_number_of_a_removed_one_answers_for_itself,
    "loss_said_in_vain": tails.test_a_loss_said_by_who_is_about_to_stop_is_heard_from_the_next,
    "let_go_early": leaving.test_what_one_turn_has_no_room_for_is_moved_in_the_next,
    "removed_unread": removals.test_what_a_group_has_not_read_stays_unless_it_is_forced,
    "removed_unheeded": removals.test_as_long_as_a_live_broker_has_not_linked_nothing_is_removed,
    "unclean_takes_the_empty": (
        elections.test_what_a_move_is_still_adding_is_elected_uncleanly_after_everybody_else
    ),
    "full_is_preferred": returns.test_nothing_is_given_back_to_a_full_disk_until_it_has_room,
    "preferred_unclean": elections.test_the_preferred_leader_leads_again_if_it_is_live_and_in_sync,
    **{
        name: partial(search_through, SEARCHED[name])
        for name in ("cancel_no_epoch", "fail_by_timer", "stray_reused")
    },
    "another_process_is_believed": (
        believed.test_another_process_of_a_member_is_not_believed_whatever_it_tells
    ),
    "led_is_forgotten": shown.test_who_led_without_a_batch_shows_the_epoch,
    "lost_turns_are_overlooked": believed.test_so_is_one_that_was_not_in_sync_and_is_here,
    "open_proposal_is_forgotten": (
        shown.test_who_asked_for_another_isr_and_heard_no_answer_does_not_know_what_became_of_it
    ),
    "other_lift_is_forgotten": shown.test_behind_another_lift_nobody_can_tell_who_led_in_between,
    "waits_for_everybody": (
        believed.test_who_was_in_sync_leads_at_once_and_no_loss_is_noted_though_somebody_is_away
    ),
    "absent_are_forgotten": (
        recounts.test_when_patience_is_over_the_furthest_leads_and_what_others_may_hold_is_noted
    ),
    "doubt_is_forgotten": recounts.test_who_lost_its_tail_since_makes_the_election_doubtful,
    "end_before_epoch": recounts.test_a_later_leader_epoch_goes_before_a_longer_log,
    "cut_is_overlooked": shown.test_a_log_that_was_cut_since_shows_no_epoch_before_it_has_grown_again,
    "deleted_is_brought_back": judged.test_who_ends_before_another_log_begins_does_not_lead_without_a_note,
    "failed_is_shown": shown.test_of_a_log_that_failed_nothing_is_shown,
    "isr_is_believed": (
        recounts.test_when_all_have_shown_their_logs_the_furthest_leads_with_those_that_hold_the_same
    ),
    "shown_by_the_dead": recounts.test_another_process_has_shown_nothing,
    "two_links": links.test_an_answer_left_in_the_old_link_does_not_end_a_proposal_of_the_new_one,
}
"""What walks find only slowly."""


@pytest.mark.parametrize("name", sorted(SCENES))
def test_the_scenario_of_the_rule_fails_without_it(name: str) -> None:
    SCENES[name]()
    with MUTANTS[name](), pytest.raises(Exception):  # noqa: B017 (an invariant or the scene's own assertion)
        SCENES[name]()


@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - SCENES.keys()))
def test_a_walk_breaks_without_the_rule(name: str) -> None:
    seeds = (KILLED_BY.get(name, 0), *range(SEEDS))
    with MUTANTS[name]():
        assert any(run_seed(seed).violation for seed in seeds), f"{name} survives {SEEDS} walks"
