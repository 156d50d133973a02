"""This room breaks rules that matter only where operators, tools and outsiders have a say."""

from coordinator.core import draft, quarantine, requests
from coordinator.core.classic import offsets as classic_offsets
from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.native import handle
from tests.simulation.native.mutants import Mutant, Patch

MUTANTS = (
    Mutant(
        "reset_skips_nothing",
        "committed offsets are set, and no generation is skipped",
        (
            Patch(
                draft.Draft.let_nobody_go_on,
                "self.record(records.GenerationSkipped(self.rows.generation + 1))",
                "pass",
            ),
        ),
    ),
    Mutant(
        "nobody_skips",
        "commits of nobody skip no generation",
        (Patch(classic_offsets.judge, "rows.protocol == NATIVE and not state", "False and state"),),
    ),
    Mutant(
        "skipped_for_ever",
        "a generation that was skipped before anybody came counts after they went, too",
        (Patch(draft.Draft.finish, "self.nobody_goes_on and not rows.members", "self.nobody_goes_on"),),
    ),
    Mutant(
        "world_keeps",
        "no generation is skipped when a group becomes a classic one",
        (Patch(ClassicDraft.enter_world, "if self.rows.before.version:", "if False:"),),
    ),
    Mutant(
        "owned_is_deleted",
        "offsets are deleted of what somebody owns and subscribes to no more",
        (Patch(draft.Draft.owners, "in self.rows.owned.items()", "in ()"),),
    ),
    Mutant(
        "removed_at_once",
        "whom an operator removes is none any more, though it fetches until its session is over",
        (
            Patch(
                requests._cut_off, "sessions.cut_off(draft, name, why)", "sessions.remove(draft, name, why)"
            ),
        ),
        seeds=(35,),
    ),
    Mutant(
        "kept_out_comes_in",
        "whoever is kept out may register",
        (Patch(handle._why_refused, "text := quarantine.refusal(draft, request.consumer_id)", "text := ''"),),
        seeds=(1345,),
    ),
    Mutant(
        "let_in_by_a_load",
        "a takeover ends quarantines",
        (Patch(quarantine.awakened, "after(now, one.length_ms)", "now"),),
        seeds=(35,),
    ),
    Mutant(
        "let_in_early",
        "a quarantine ends before the session of who has the name",
        (Patch(quarantine.time_passed, "if name in sessions:", "if False:"),),
        seeds=(45,),
    ),
    Mutant(
        "tried_is_done",
        "a dry run is carried out",
        (Patch(requests._decided, "if request.asked.dry_run:", "if False:"),),
        seeds=(5,),
    ),
    Mutant(
        "set_under_members",
        "offsets are set while members are there",
        (Patch(requests._set_offsets, "if _members(draft):", "if False:"),),
        seeds=(5,),
    ),
    Mutant(
        "boundless",
        "any number may be members",
        (
            Patch(
                handle._why_refused,
                "if len(draft.rows.members) >= settings.group_max_size:",
                "if False:",
            ),
        ),
        seeds=(425,),
    ),
    Mutant(
        "refused_leaves_a_trace",
        "whoever is refused puts the next rebalance off",
        (
            Patch(
                handle._register,
                "draft.answer(connection, refusal)",
                "draft.answer(connection, refusal)\n        draft.failures += 1",
            ),
        ),
        seeds=(5,),
    ),
)
