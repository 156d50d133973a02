"""This room sees that each broken rule is noticed: by seeds of the simulation, or by a named transcript."""

from collections.abc import Callable

import pytest

from coordinator.core.native import attempts, handle
from muster.kernel.invariants import InvariantViolation
from tests.scenarios.native.transcripts import FOLDER, played
from tests.simulation.native import ageing_mutants, operator_mutants
from tests.simulation.native.cluster import Cluster
from tests.simulation.native.mutants import MUTANTS, Mutant, Patch, applied
from tests.simulation.native.runner import run_seed
from tests.simulation.native.scripted import (
    a_batch_of_commits_is_refused_though_it_is_stored,
    a_kafka_consumer_knocks_before_offsets_change,
    a_member_comes_back_after_another_had_its_share,
    offsets_are_committed_by_nobody_while_everybody_is_away,
    offsets_are_deleted_of_a_topic_that_is_not_given_up_yet,
    offsets_are_reset_while_everybody_is_away,
    violation_of,
    who_is_stopped_commits_the_step_in_hand_behind_its_answer,
)

ALL = (*MUTANTS, *operator_mutants.MUTANTS, *ageing_mutants.MUTANTS)
NOTICED = [mutant for mutant in ALL if mutant.seeds]
SCRIPTS: dict[str, tuple[Callable[[Cluster], None], int]] = {
    "kept_too_long": (a_member_comes_back_after_another_had_its_share, 0),
    "reset_skips_nothing": (offsets_are_reset_while_everybody_is_away, 5),
    "nobody_skips": (offsets_are_committed_by_nobody_while_everybody_is_away, 5),
    "skipped_for_ever": (offsets_are_committed_by_nobody_while_everybody_is_away, 5),
    "world_keeps": (a_kafka_consumer_knocks_before_offsets_change, 5),
    "owned_is_deleted": (offsets_are_deleted_of_a_topic_that_is_not_given_up_yet, 5),
    "refused_keeps_cache": (a_batch_of_commits_is_refused_though_it_is_stored, 5),
    "no_order": (who_is_stopped_commits_the_step_in_hand_behind_its_answer, 11),
}
"""For mutants without a seed: the script that notices, and the seed that it is played on."""

FAIL_IF_CONCERNED = "attempts.fail_if_concerned(draft, member_id,"
TRANSCRIPT_MUTANTS = (
    (
        "a_response_to_a_failed_attempt_does_not_count_for_the_next",
        Patch(handle._stop_answered, "key != draft.attempt.key", "key[0] != draft.attempt.key[0]"),
    ),
    (
        "a_register_of_a_loser_fails_the_attempt",
        Patch(handle._register, FAIL_IF_CONCERNED, "str("),
    ),
    (
        "a_closed_connection_fails_the_attempt_at_once",
        Patch(handle._connection_closed, FAIL_IF_CONCERNED, "str("),
    ),
    (
        "an_attempt_does_not_open_while_a_member_is_away",
        Patch(attempts.settle, "and _all_connected(draft, item.proposal)", ""),
    ),
    (
        "repair_rests_while_an_attempt_is_open",
        Patch(handle._ping_answered, "if draft.attempt is None and repair:", "if True:"),
    ),
    (
        "an_expelled_member_keeps_its_partitions_until_its_session_is_over",
        Patch(handle._why_refused, "if draft.sessions[request.consumer_id].expelled:", "if False:"),
    ),
    (
        "whoever_answers_start_and_never_stop_is_cut_off_too",
        Patch(handle._start_answered, "missed_starts=0", "missed_starts=0, missed_stops=0"),
    ),
    (
        "changed_subscriptions_do_not_starve_the_others",
        Patch(attempts.adopt, "draft.want(MEMBERS_CHANGED)", "draft.want(MEMBERS_CHANGED)\n        return"),
    ),
)


@pytest.mark.parametrize("mutant", NOTICED, ids=lambda mutant: mutant.name)
def test_the_simulation_notices(mutant: Mutant) -> None:
    with applied(mutant):
        assert any(_notices(seed) for seed in mutant.walks), mutant.rule


@pytest.mark.parametrize(
    "mutant", [mutant for mutant in ALL if not mutant.seeds], ids=lambda mutant: mutant.name
)
def test_the_script_notices(mutant: Mutant) -> None:
    script, seed = SCRIPTS[mutant.name]
    assert not violation_of(script, seed)
    with applied(mutant):
        assert violation_of(script, seed), mutant.rule


@pytest.mark.parametrize(("transcript", "patch"), TRANSCRIPT_MUTANTS, ids=str)
def test_the_transcript_notices(transcript: str, patch: Patch) -> None:
    path = FOLDER / f"{transcript}.txt"
    with applied(Mutant(transcript, "", (patch,))):
        assert _text_or_failure(path) != path.read_text()


def _notices(seed: int) -> bool:
    # Those that never settle need not be watched for as long as a seed that must.
    return bool(run_seed(seed, calm_ms=30_000).violation)


def _text_or_failure(path: object) -> str:
    try:
        return played(path)  # type: ignore[arg-type]
    except (InvariantViolation, KeyError) as failure:
        return str(failure)
