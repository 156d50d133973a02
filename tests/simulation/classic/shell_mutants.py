"""This room breaks the shells around the classic core, one rule at a time, to see that somebody notices."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from coordinator import liveness
from coordinator.callers import Orders, _hold
from coordinator.classic_commits import ClassicCommit
from coordinator.commits import Commits, _Batch
from coordinator.core import deletions, expiry, quarantine, requests
from coordinator.core.classic import joining, loading
from coordinator.core.classic import offsets as classic_offsets
from coordinator.core.native import beats
from coordinator.housekeeping import Housekeeping
from coordinator.inner_seat import InnerSeat
from coordinator.leased import LeasedShard
from coordinator.requests import Requests
from coordinator.service import ShardService
from coordinator.subject import Groups
from gateway import members as doors
from gateway.habits import CommitHabit
from gateway.session import KafkaSession
from gateway.translation import groups as translation
from runtime.streams import Stream
from tests.scenarios.classic import test_kafkas_own_bugs_stay_away as bugs
from tests.simulation.native.mutants import Mutant, Patch
from tests.unit.classic_core import test_offsets_expire as old_offsets
from tests.unit.coordinator import test_a_takeover_loads_each_group_once as takeovers
from tests.unit.coordinator import test_kafka_clients_commit_in_the_batch as batches
from tests.unit.coordinator import test_kafka_clients_share_a_group as shares
from tests.unit.coordinator import test_kafkas_tools_are_told_about_groups as told
from tests.unit.coordinator import test_large_commits_are_judged_in_portions as portions
from tests.unit.coordinator import test_old_offsets_are_looked_for as tools
from tests.unit.coordinator import test_what_one_caller_says_keeps_its_order as orders
from tests.unit.coordinator_core import test_a_removed_member_is_kept_out as kept_out
from tests.unit.gateway import test_groups_live_behind_the_kafka_door as door
from tests.unit.gateway import test_members_are_worded_for_each_version as worded
from tests.unit.gateway import test_what_is_said_again_is_known as again

SEEN_BY_SEEDS = (
    Mutant(
        "dropped_and_forgotten",
        "who is parked when a cache is dropped is not told",
        (Patch(Groups.drop, "self._say(parked)", "pass"),),
        seeds=(10,),
    ),
    Mutant(
        "refused_and_forgotten",
        "who asked in a turn that came to nothing is not told",
        (Patch(Groups.refuse, "elif isinstance(event, ClassicRequest | ToolRequest):", "elif False:"),),
        seeds=(13,),
    ),
    Mutant(
        "given_up_and_forgotten",
        "who waits when the shard goes is not told",
        (
            Patch(
                ShardService.give_up,
                'self.premises.speech.say(HangUp(caller.id, ErrorCode.NOT_COORDINATOR, new_owner or ""))',
                "pass",
            ),
        ),
        seeds=(2,),
    ),
    Mutant(
        "commits_stay_parked",
        "commits that wait for a load are not judged after it",
        (Patch(ShardService._take_turn_for_commits, "self._commits.turned(key)\n", "pass\n"),),
        seeds=(139,),
    ),
    Mutant(
        "heartbeats_are_not_noted",
        "a heartbeat that is answered is not heard",
        (Patch(liveness.beaten, "state.classic.heard_at[member_id] = now", "pass"),),
        seeds=(1,),
    ),
    Mutant(
        "another_caller_comes_first",
        "of two commits of two callers the later is judged first",
        (
            Patch(
                Commits.gather,
                "commit = waiting.popleft()",
                "if due > 1 and waiting[0].connection != waiting[1].connection:\n"
                "                waiting[0], waiting[1] = waiting[1], waiting[0]\n"
                "            commit = waiting.popleft()",
            ),
        ),
        seeds=(0,),
    ),
    Mutant(
        "notes_are_lost",
        "what is committed beside an offset is not kept",
        (Patch(ClassicCommit.judge, "offsets, notes)", "offsets, {})"),),
        seeds=(0,),
    ),
    Mutant(
        "cache_misses_commits",
        "a batch is written, and not remembered",
        (
            Patch(
                Commits.committed,
                "states[key] = offsets.committed(states[key], positions, notes or _NO_NOTES)",
                "pass",
            ),
        ),
        seeds=(0,),
    ),
    Mutant(
        "spoiled_requests_wait",
        "a request with which no turn can be taken is never answered",
        (Patch(Requests.refused, "self._inbox.give_up(request.id)", "pass"),),
        seeds=(152,),
    ),
    Mutant(
        "dropped_is_new",
        "a group whose cache was dropped counts as one that does not exist",
        (Patch(Groups.drop, "self._unloaded.add(key)", "pass"),),
        seeds=(183,),
    ),
    Mutant(
        "sessions_go_on",
        "after a takeover sessions are as short as if they had gone on",
        (
            Patch(
                loading.load,
                "draft.restart(classic.members, settings.lease_ttl_ms)",
                "draft.restart(classic.members, -settings.lease_ttl_ms)",
            ),
        ),
        seeds=(0,),
    ),
    Mutant(
        "quarantine_is_short",
        "a quarantine lasts half its time",
        (Patch(quarantine.impose, "after(draft.now, length_ms)", "after(draft.now, length_ms // 2)"),),
        seeds=(22,),
    ),
    Mutant(
        "quarantine_ends_with_its_owner",
        "a takeover ends a quarantine",
        (Patch(quarantine.awakened, "after(now, one.length_ms)", "now"),),
        seeds=(33,),
    ),
    Mutant(
        "quarantine_keeps_nobody_out",
        "who is kept out comes in",
        (
            Patch(
                joining.join,
                "elif quarantine.keeps_out(draft, event.group_instance_id or event.client_id):",
                "elif False:",
            ),
        ),
        seeds=(37,),
    ),
    Mutant(
        "tools_delete_members",
        "a tool deletes a group with members",
        (Patch(deletions._is_empty, "return draft.phase is Phase.EMPTY", "return True"),),
        seeds=(1,),
    ),
    Mutant(
        "what_is_read_expires",
        "offsets that somebody reads go by their age",
        (Patch(expiry._sweep, "and read.is_over(one)", ""),),
        seeds=(0,),
    ),
    Mutant(
        "any_version_is_expected",
        "a request is carried out though the group is not as it expects",
        (Patch(requests._is_as_expected, "if expected is None:", "if True:"),),
        seeds=(249,),
    ),
    Mutant(
        "dry_runs_are_wet",
        "a dry run is carried out",
        (Patch(requests._decided, "if request.asked.dry_run:", "if False:"),),
        seeds=(16,),
    ),
    Mutant(
        "reset_under_members",
        "offsets are set while members are there",
        (Patch(requests._set_offsets, "if _members(draft):", "if False:"),),
        seeds=(10,),
    ),
    Mutant(
        "anybody_commits",
        "who is no member commits while there are some",
        (
            Patch(
                classic_offsets.judge,
                "if generation < 0 and rows.phase is _EMPTY:",
                "if generation < 0:",
            ),
        ),
        seeds=(17,),
    ),
    Mutant(
        "old_generations_commit",
        "a member commits whatever generation it is of",
        (
            Patch(
                classic_offsets.refusal,
                "if generation != told_generation(rows.generation):",
                "if False:",
            ),
        ),
        seeds=(2,),
    ),
    Mutant(
        "commits_while_assigning",
        "what was read in the generation that has ended is committed in the next",
        (Patch(classic_offsets.refusal, "if rows.phase is _COMPLETING:", "if False:"),),
        seeds=(161,),
    ),
    Mutant(
        "time_is_a_ping",
        "what is due in a classic group is looked at as if it could only be a ping",
        (Patch(beats.ping, "if state.rows.protocol != NATIVE:", "if False:"),),
        seeds=(4,),
    ),
)

Test = Callable[[], Any]


def _awaited(test: Callable[..., Any], *arguments: Any) -> Test:
    return lambda: asyncio.run(test(*arguments))


SEEN_BY_A_TEST: tuple[tuple[Mutant, Test], ...] = (
    (
        Mutant(
            "parked_commits_come_last",
            "what waited for a load is judged behind what came since",
            (
                Patch(
                    Commits.turned,
                    "self._waiting.extendleft(reversed(parked))",
                    "self._waiting.extend(parked)",
                ),
            ),
        ),
        _awaited(portions.test_what_waited_for_its_group_comes_before_what_came_since),
    ),
    (
        Mutant(
            "turns_come_between_portions",
            "a turn is taken though more waited when the batch began",
            (Patch(Stream._run_batch, "await self._freshness.wait()", "await self._run_jobs()"),),
        ),
        _awaited(portions.test_nobody_is_expelled_behind_a_large_commit_of_its_own_or_of_others),
    ),
    (
        Mutant(
            "portions_end_with_the_lane",
            "of a batch that has begun the later portions are refused when the lane closes",
            (Patch(Commits.turn_away, "len(waiting) - self._due", "len(waiting)"),),
        ),
        _awaited(portions.test_what_is_refused_because_the_lane_closes_is_what_no_batch_has_begun_with),
    ),
    (
        Mutant(
            "reads_need_no_load",
            "of a group that is not in the cache nothing is committed",
            (Patch(LeasedShard.read, "while self._groups.must_be_loaded(key):", "while False:"),),
        ),
        _awaited(takeovers.test_a_group_that_cannot_be_read_is_not_one_that_does_not_exist),
    ),
    (
        Mutant(
            "a_commit_is_no_sign_of_life",
            "an accepted commit does not prolong the session",
            (Patch(ShardService._live, "state.classic.heard_at[member_id] = now", "pass"),),
        ),
        _awaited(batches.test_a_commit_is_a_sign_of_life),
    ),
    (
        Mutant(
            "older_notes_stay",
            "of two commits in one batch the note of the first outlives the second",
            (Patch(_Batch.take, "notes.pop(partition, None)", "pass"),),
        ),
        _awaited(batches.test_of_two_commits_in_one_batch_the_last_counts_be_it_without_a_note),
    ),
    (
        Mutant(
            "the_other_way_does_not_wait",
            "a turn goes on though the batch before it is not written",
            (Patch(Orders._go_on, "not line.under_way or", "True or"),),
        ),
        orders.test_the_other_way_waits_until_all_before_it_is_done,
    ),
    (
        Mutant(
            "callers_hold_without_end",
            "what waits of one caller has no bound",
            (Patch(_hold, ">= HELD_MAX", "< 0"),),
        ),
        orders.test_what_waits_has_a_bound,
    ),
    (
        Mutant(
            "expires_in_a_rebalance",
            "offsets go while a group rebalances",
            (Patch(expiry._Read.is_over, "not self._known or", "self._known and"),),
        ),
        old_offsets.test_nothing_goes_in_a_rebalance_or_from_another_kind_of_group,
    ),
    (
        Mutant(
            "quarantine_outruns_the_session",
            "a quarantine ends before the session of the member that has the name",
            (Patch(quarantine.time_passed, "if name in sessions:", "if False:"),),
        ),
        kept_out.test_it_may_come_again_when_its_session_is_over_and_not_before,
    ),
    (
        Mutant(
            "clients_of_a_name",
            "one of several clients of a name is kept out, and with it all",
            (Patch(requests._take_out, "if same > 1:", "if False:"),),
        ),
        kept_out.test_clients_of_one_name_are_not_told_apart,
    ),
    (
        Mutant(
            "removed_and_let_in",
            "whoever removes a member again ends what it was kept out for",
            (
                Patch(
                    requests._cut_off,
                    "if wish.quarantine_ms or name not in draft.rows.quarantined:",
                    "if True:",
                ),
            ),
        ),
        kept_out.test_whoever_removes_it_again_without_a_time_takes_none_away,
    ),
    (
        Mutant(
            "names_without_end",
            "any number of names is kept out",
            (Patch(requests._too_many_kept_out, "< QUARANTINES_MAX", ">= 0"),),
        ),
        kept_out.test_names_that_are_kept_out_are_bounded,
    ),
    (
        Mutant(
            "refused_without_its_id",
            "a Join that is refused because the shard moves does not echo the id",
            (
                Patch(
                    doors._refused_join, "JoinAnswer(waiter, error, member_id)", "JoinAnswer(waiter, error)"
                ),
            ),
        ),
        _awaited(door.test_a_shard_that_moves_answers_who_waits_and_closes_nothing),
    ),
    (
        Mutant(
            "habits_outlive_topics",
            "a commit that is said again is for the topics of the first time",
            (Patch(CommitHabit._said_again, "self.known.topics is not self.topics or ", ""),),
        ),
        _awaited(again.test_a_topic_that_was_deleted_and_made_again_is_another_one),
    ),
    (
        Mutant(
            "habits_of_any_version",
            "a commit that is said again is answered in the version of the first time",
            (Patch(CommitHabit.said_in, "if not received.startswith(self.begins):", "if False:"),),
        ),
        _awaited(again.test_what_two_versions_say_alike_is_answered_in_the_words_of_each),
    ),
    (
        Mutant(
            "habits_outlive_rights",
            "a commit that is said again is let in by the rights of the first time",
            (Patch(KafkaSession.admitted, "self.known = self.join = self.sync = self.commit = None", ""),),
        ),
        _awaited(again.test_who_may_read_it_no_more_is_refused),
    ),
    (
        Mutant(
            "hosts_have_ports",
            "the host of a member changes with its connection",
            (Patch(KafkaSession.__init__, 'peer.rpartition(":")[0]', "peer"),),
        ),
        _awaited(door.test_the_address_of_a_member_is_told_without_its_port),
    ),
    (
        Mutant(
            "no_rebalance_timeout",
            "a JoinGroup without a rebalance timeout has none",
            (
                Patch(
                    translation.join_event,
                    "session_timeout_ms if rebalance_timeout is None",
                    "-1 if rebalance_timeout is None",
                ),
            ),
        ),
        partial(worded.test_before_version_1_the_session_timeout_is_the_rebalance_timeout_too, 0),
    ),
    (
        Mutant(
            "old_leavers_hear_nothing",
            "before version 3 the error of who leaves is lost",
            (Patch(translation.leave_answer, "answer.error or answer.members[0].error", "answer.error"),),
        ),
        partial(worded.test_an_entrys_error_stands_at_the_top_before_version_3, 2),
    ),
    (
        Mutant(
            "tools_wait_for_ever",
            "who uses a tool does not hear that the shard went",
            (Patch(InnerSeat.hang_up, "DeletionAnswer(waiter, error)", "DeletionAnswer(waiter)"),),
        ),
        _awaited(tools.test_a_tool_that_waits_hears_that_the_shard_went_away),
    ),
    (
        Mutant(
            "sync_hears_of_loading",
            "a Sync hears that the shard is loading",
            (Patch(ShardService.request, "and isinstance(event, Sync)", "and False"),),
        ),
        _awaited(shares.test_while_a_shard_is_loading_nobody_is_scared_into_a_rebalance),
    ),
    (
        Mutant(
            "scared_by_a_load",
            "a heartbeat hears that its member is unknown while the shard is loading",
            (Patch(ShardService.heartbeat, " if self._loaded else ErrorCode.NONE", ""),),
        ),
        _awaited(shares.test_while_a_shard_is_loading_nobody_is_scared_into_a_rebalance),
    ),
    (
        Mutant(
            "reads_prove_nothing",
            "a question is answered without a look at the lease",
            (Patch(LeasedShard._prove, "await lane.prove()", "await __import__('asyncio').sleep(0.005)"),),
        ),
        _awaited(told.test_who_lost_the_lease_without_knowing_it_tells_nothing),
    ),
    (
        Mutant(
            "a_look_is_enough",
            "a read proves the lease, whatever its epoch",
            (
                Patch(
                    Stream._run_reads, "if epochs.get(seat.name, (None, -1))[1] != seat.epoch:", "if False:"
                ),
            ),
        ),
        _awaited(told.test_who_lost_the_lease_without_knowing_it_tells_nothing),
    ),
    (
        Mutant(
            "sweeps_count_late",
            "an old offset that was committed again since it was looked at goes",
            (Patch(Groups._is_news, "not isinstance(event, Swept) or state.rows is looked_at", "True"),),
        ),
        _awaited(tools.test_a_commit_that_comes_while_it_is_looked_keeps_its_offset),
    ),
    (
        Mutant(
            "orphans_stay",
            "offsets of topics that went unseen are not looked for",
            (Patch(Housekeeping._look, "if key in found.topics:", "if False:"),),
        ),
        _awaited(tools.test_offsets_of_a_topic_that_is_no_more_go_whoever_reads_it),
    ),
    (
        Mutant(
            "who_comes_back_is_counted_twice",
            "an instance does not come back to a full group",
            (Patch(joining._place_of, "event.member_id or", "event.member_id and"),),
        ),
        partial(bugs.test_an_instance_comes_back_to_a_full_group, rebalancing=False),
    ),
)
