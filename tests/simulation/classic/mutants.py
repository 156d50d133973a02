"""This room breaks one rule of the classic protocol at a time, to see that somebody notices."""

from coordinator.core.classic import (
    instances,
    joining,
    leaving,
    liveness,
    loading,
    rebalancing,
    syncing,
    voting,
)
from coordinator.core.classic.draft import ClassicDraft
from groups.core.rows import ClassicBuilder
from tests.simulation.native.mutants import Mutant, Patch
from tests.unit.classic_core import test_a_group_has_a_limit as limit
from tests.unit.classic_core import test_generations_go_on_behind_kafkas_last as last
from tests.unit.classic_core import test_ids_wait_for_their_first_join as ids
from tests.unit.classic_core import test_members_join as joins
from tests.unit.classic_core import test_members_vote_for_a_protocol as votes
from tests.unit.classic_core import test_static_members_keep_their_place as static
from tests.unit.classic_core import test_the_leader_brings_the_assignment as shares

SEEN_BY_SEEDS = (
    Mutant(
        "waiting_expires",
        "the session of a member ends while its answer is held back",
        (Patch(leaving._look_after, "if waits and not session.fresh:", "if False:"),),
        seeds=(2,),
    ),
    Mutant(
        "heartbeats_unheard",
        "a heartbeat does not prolong the session",
        (Patch(leaving._look_after, "if heard_at is not None and", "if False and heard_at is not None and"),),
        seeds=(0,),
    ),
    Mutant(
        "no_join_timer_after_load",
        "after a takeover nothing ends a join phase",
        (Patch(loading.load, "draft.join_phase = JoinPhase(after(now, longest_ms))", "pass"),),
        seeds=(5,),
    ),
    Mutant(
        "hung_joiners_are_awaited",
        "a join phase has no end",
        (
            Patch(
                rebalancing.prepare,
                "JoinPhase(after(draft.now, longest))",
                "JoinPhase(after(draft.now, 10**9))",
            ),
        ),
        seeds=(114,),
    ),
    Mutant(
        "debtors_are_awaited",
        "whoever never asks for its assignment stays",
        (
            Patch(
                rebalancing._complete,
                "draft.sync_ends_at = after(draft.now, draft.longest_rebalance_ms())",
                "draft.sync_ends_at = None",
            ),
        ),
        seeds=(138,),
    ),
    Mutant(
        "ids_stay",
        "an id that nobody joins with has no end",
        (
            Patch(
                joining._stranger_joins,
                "draft.set_session(fresh, event.session_timeout_ms)",
                "draft.set_session(fresh, 10**9)",
            ),
        ),
        seeds=(60,),
    ),
    Mutant(
        "all_have_a_place",
        "in a rebalance more than the limit may join",
        (
            Patch(
                joining._has_room,
                "return member_id in draft.joins or len(draft.joins) < most",
                "return True",
            ),
        ),
        seeds=(100,),
    ),
    Mutant(
        "any_member_leads",
        "whoever syncs first brings the assignment",
        (Patch(syncing.sync, "if draft.rows.classic.leader == member_id:", "if True:"),),
        seeds=(1,),
    ),
)

SEEN_BY_THE_PLAIN_TELLING = (
    Mutant(
        "joined_after_load",
        "a takeover forgets who must join",
        (Patch(loading.load, "draft.sync_ends_at = after(now, longest_ms)", "draft.owing.clear()"),),
    ),
    Mutant(
        "no_fence",
        "two processes of one instance are both members",
        (Patch(instances.fault_of, "if holder != member_id:", "if False:"),),
    ),
    Mutant(
        "silent_removal",
        "who is removed while it waits hears nothing",
        (
            Patch(
                ClassicDraft._forget,
                "if (parked := self.joins.pop(member_id, None)) is not None:",
                "if (parked := self.joins.pop(member_id, None)) is not None and not member_id:",
            ),
        ),
    ),
    Mutant(
        "leader_is_quiet",
        "a leader that joins again in Stable is told its generation",
        (Patch(joining._joins_again, "and not (leads and phase is Phase.STABLE)", ""),),
    ),
    Mutant(
        "changes_are_quiet",
        "a member that joins with other protocols is told its generation",
        (Patch(joining._joins_again, "and not changed and", "and"),),
    ),
    Mutant(
        "delay_is_cut_short",
        "joins end the initial delay",
        (Patch(rebalancing.settle, "may_end and not", "not"),),
    ),
    Mutant(
        "some_know_it",
        "a protocol is chosen that not all know",
        (Patch(voting.choose, "if supported.get(name) == len(members):", "if True:"),),
    ),
    Mutant(
        "debtors_stay",
        "who never asks for its assignment stays",
        (
            Patch(
                syncing.look_for_debtors,
                "draft.sync_ends_at = None\n",
                "draft.sync_ends_at = None\n    return\n",
            ),
        ),
    ),
    Mutant(
        "only_joiners_owe",
        "static members that did not join owe no Sync",
        (
            Patch(
                rebalancing._complete,
                "dict.fromkeys(classic.members)",
                "dict.fromkeys(one for one in classic.members if one.startswith('app'))",
            ),
        ),
    ),
    Mutant(
        "absent_members_stay",
        "the join timer removes nobody",
        (Patch(rebalancing._time_is_over, "draft.remove(member_id, DID_NOT_JOIN)", "pass"),),
    ),
    Mutant(
        "rebalances_are_not_told",
        "a heartbeat does not tell of a rebalance",
        (Patch(liveness.heartbeat, "return ErrorCode.REBALANCE_IN_PROGRESS", "return ErrorCode.NONE"),),
    ),
    Mutant(
        "instances_are_given_ids",
        "a static member must join twice",
        (Patch(joining._stranger_joins, "if event.group_instance_id is not None:", "if False:"),),
    ),
    Mutant(
        "return_is_quiet",
        "a static member that comes back is told the generation that is being assigned",
        (Patch(instances.come_back, "draft.phase is Phase.STABLE and", ""),),
    ),
    Mutant(
        "entries_share_a_fate",
        "a member and an instance that do not belong together leave",
        (
            Patch(
                leaving._depart,
                "if fault is not ErrorCode.NONE:",
                "if member_id not in draft.rows.classic.members:",
            ),
        ),
    ),
)

SEEN_BY_A_TEST = (
    (
        Mutant(
            "share_of_who_states_too_much",
            "what a member had that is turned away is nobody's until somebody else comes or goes",
            (Patch(joining._turn_away, "if draft.phase is not _PREPARING:", "if False:"),),
        ),
        limit.test_what_a_member_had_that_states_too_much_goes_to_the_others,
    ),
    (
        Mutant(
            "no_refused_syncs",
            "a rebalance tells nobody who waits for an assignment",
            (Patch(rebalancing.prepare, "    refuse_syncs(draft)\n", ""),),
        ),
        joins.test_a_changed_member_begins_a_rebalance_while_the_others_sync,
    ),
    (
        Mutant(
            "any_generation_syncs",
            "an assignment is for whatever generation asks",
            (
                Patch(
                    syncing._why_refused,
                    "if event.generation != told_generation(draft.rows.generation):",
                    "if False:",
                ),
            ),
        ),
        shares.test_a_sync_is_checked_in_order,
    ),
    (
        Mutant(
            "pending_are_not_awaited",
            "ids that were given are not waited for",
            (Patch(rebalancing.settle, "and not draft.pending and", "and"),),
        ),
        ids.test_the_join_phase_waits_for_an_id_until_its_time_is_over,
    ),
    (
        Mutant(
            "first_leads",
            "the leader changes though it joined",
            (Patch(voting.leader, "if present is not None and present in joined:", "if False:"),),
        ),
        static.test_a_leader_that_came_back_leads_on,
    ),
    (
        Mutant(
            "fewest_votes",
            "the protocol with the fewest votes is chosen",
            (Patch(voting.choose, "return max(", "return min("),),
        ),
        votes.test_of_what_all_know_most_votes_win,
    ),
    (
        Mutant(
            "static_members_go",
            "the join timer removes static members, too",
            (Patch(rebalancing._time_is_over, "and member.group_instance_id is None", ""),),
        ),
        static.test_a_static_member_that_does_not_join_stays,
    ),
    (
        Mutant(
            "leadership_is_lost",
            "a static leader that comes back leads no more",
            (Patch(ClassicBuilder.apply, "if self.leader == old.member_id:", "if False:"),),
        ),
        static.test_a_leader_that_came_back_leads_on,
    ),
    (
        Mutant(
            "generations_without_room",
            "members are told a generation that Kafka's wire has no room for",
            (Patch(rebalancing.welcome, "told_generation(draft.rows.generation)", "draft.rows.generation"),),
        ),
        last.test_members_hear_one_again_behind_the_last_while_rows_count_on,
    ),
    (
        Mutant(
            "old_shares_are_kept",
            "whom the leader leaves out keeps what it had",
            (
                Patch(
                    ClassicBuilder._assign,
                    'assignments.get(member_id, b"")',
                    "assignments.get(member_id, member.assignment)",
                ),
            ),
        ),
        shares.test_who_had_partitions_and_is_left_out_has_none,
    ),
    (
        Mutant(
            "late_comers_have_a_place",
            "a full group takes strangers",
            (Patch(joining._has_room, "return member_id in members or len(members) < most", "return True"),),
        ),
        limit.test_a_full_group_takes_no_stranger,
    ),
    (
        Mutant(
            "boundless_ids",
            "ids are given to strangers without end",
            (Patch(joining._has_room, "if is_given_one and", "if False and"),),
        ),
        limit.test_no_more_ids_wait_for_their_first_join_than_there_may_be_members,
    ),
    (
        Mutant(
            "boundless_metadata",
            "what members state of themselves has no bound",
            (Patch(joining._fits, "return more <= 0 or", "return True or"),),
        ),
        limit.test_who_would_make_the_metadata_too_long_is_refused_and_the_others_stay,
    ),
    (
        Mutant(
            "return_is_a_rebalance",
            "a static member that comes back unchanged begins a rebalance",
            (Patch(instances.come_back, "draft.phase is Phase.STABLE and", "False and"),),
        ),
        static.test_a_follower_that_comes_back_hears_who_leads,
    ),
    (
        Mutant(
            "no_session_after_answers",
            "sessions do not start anew when a join phase ends",
            (Patch(rebalancing._complete, "draft.restart(classic.members)", "pass"),),
        ),
        joins.test_when_the_join_phase_ends_sessions_begin_and_syncs_are_owed,
    ),
)
