"""This room runs the seeds of classic groups; `make sim SEEDS=…` runs more of them."""

from functools import cache

import pytest

from tests.simulation.classic.runner import run_seed
from tests.simulation.native.runner import Outcome

SEEDS = 300
SEEDS_A_TEST = 30
LOOKED_INTO = 240


@cache
def outcome_of(seed: int) -> Outcome:
    """The first seeds are looked at twice."""
    return run_seed(seed)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_after_any_faults_kafka_clients_share_their_group_again(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        outcome = outcome_of(seed) if seed < LOOKED_INTO else run_seed(seed)
        assert not outcome.violation, (
            f"{outcome.violation}; replay: python -m tests.simulation.run classic --seed {seed}\n"
            + "\n".join(outcome.trail[-40:])
        )


def test_a_seed_replays_to_the_letter() -> None:
    assert run_seed(3) == outcome_of(3)


def test_the_seeds_contain_what_they_are_meant_to_survive() -> None:
    trails = "\n".join(line for seed in range(LOOKED_INTO) for line in outcome_of(seed).trail)
    for fault in (
        "crashes",
        "breaks",
        "is paused",
        "leaves",
        "dies",
        "is stopped",
        "reach no database",
        "of the next commit",
        "leaps by",
        "is rolled back",
        "strategy is rolled",
        "another pod",
        "InstanceReplaced",
        "hears FENCED_INSTANCE_ID",
        "hears UNKNOWN_MEMBER_ID",
        "hears NOT_COORDINATOR",
        "hears REBALANCE_IN_PROGRESS",
        "session over",
        "GroupDeleted",
        "ProtocolEntered(protocol=native)",
        "OffsetsDeleted",
        "OffsetsSet",
        "commits from outside",
        "that lay about is sent",
        "takes out",
        "speaks the native protocol",
        "is made anew",
        "deletes the group",
        "request remove_member: done",
        "request rebalance: done",
        "request delete_offsets: done",
        "request reset_offsets: done",
        "request delete_group: done",
        "changed meanwhile",
        "would be done",
        "MemberQuarantined",
        "QuarantineEnded",
    ):
        assert fault in trails, fault
