"""A fair run that breaks something is the last of its walk: another one might not meet it again."""

from types import ModuleType
from unittest.mock import patch

import pytest

from tests.simulation.replication import compacting, disks, producing, runner
from tests.simulation.replication.wishes import Broken


@pytest.mark.parametrize(
    "walk", [compacting, disks, producing], ids=lambda walk: walk.__name__.split(".")[-1]
)
def test_the_first_violation_of_a_fair_run_is_the_walks(walk: ModuleType) -> None:
    runs: list[object] = []
    rest = runner._rest

    def breaks_at_first(world: disks.DiskWorld) -> bool:
        runs.append(world)
        if len(runs) == 1:
            raise Broken("the first")
        return rest(world)

    # A machine must start again after each of the first fair runs.
    is_damaged = iter([False, True, True, False, False, False])
    with (
        patch.object(runner, "_rest", breaks_at_first),
        patch.object(disks.DiskWorld, "revive_damaged", lambda _world: next(is_damaged)),
    ):
        outcome = walk.run_seed(6)
    assert outcome.violation.endswith(": the first")
