"""This room runs the seeds of classic groups; `make sim SEEDS=…` runs more of them."""

import pytest

from tests.simulation.classic.runner import run_seed

SEEDS = 60
SEEDS_A_TEST = 20


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_after_any_faults_kafka_clients_share_their_group_again(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        outcome = run_seed(seed)
        assert not outcome.violation, (
            f"{outcome.violation}; replay: python -m tests.simulation.run classic --seed {seed}\n"
            + "\n".join(outcome.trail[-40:])
        )


def test_a_seed_replays_to_the_letter() -> None:
    assert run_seed(3) == run_seed(3)


def test_the_seeds_contain_what_they_are_meant_to_survive() -> None:
    trails = "\n".join(line for seed in range(30) for line in run_seed(seed).trail)
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
    ):
        assert fault in trails, fault
