"""Which phase follows which, and by what: the table, and that nothing in it is made up."""

from collections.abc import Sequence
from typing import Any

import pytest

from coordinator.core import rebalance
from coordinator.core.decide import load
from coordinator.core.events import ConnectionId, Heard, ItemFinished
from coordinator.core.settings import GroupSettings, Surroundings
from groups import models
from groups.core.phases import Phase
from groups.core.records import GenerationOpened, MemberRemoved
from groups.core.state import GroupRows
from groups.core.transitions import NATIVE, allowed
from muster.kernel.instants import Instant
from muster.messages.member import LeaveRequest
from tests.simulation.native.node import Node
from tests.simulation.native.runner import run_seed
from tests.simulation.native.world import World
from tests.unit.coordinator_core.group import LAYOUTS, Group, registering


def test_the_column_knows_the_phases_of_the_core() -> None:
    assert list(models.Phase.values) == [phase.value for phase in Phase]


def test_a_phase_needs_its_cause() -> None:
    assert allowed(Phase.STABLE, Phase.EMPTY, [MemberRemoved("ann", "left")])
    assert not allowed(Phase.STABLE, Phase.EMPTY, [GenerationOpened(2)])
    assert not allowed(Phase.STABLE, Phase.EMPTY, [])


def test_a_failed_attempt_needs_no_record() -> None:
    assert allowed(Phase.PREPARING_REBALANCE, Phase.STABLE, [])


def test_a_load_puts_any_stored_phase_in_order() -> None:
    rows = GroupRows("readers", version=3, phase=Phase.COMPLETING_REBALANCE)
    decision = load(rows, Instant(0), GroupSettings(), Surroundings())
    assert decision.state.rows.phase is Phase.EMPTY


RARE = {
    (Phase.EMPTY, Phase.PREPARING_REBALANCE),
    (Phase.EMPTY, Phase.COMPLETING_REBALANCE),
    (Phase.COMPLETING_REBALANCE, Phase.EMPTY),
    (Phase.PREPARING_REBALANCE, Phase.EMPTY),
}


def test_every_way_of_the_table_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[Phase, Phase]] = set()
    committed = World.turn_committed

    def watched(self: World, node: Node, before: GroupRows, written: Sequence[Any]) -> None:
        seen.add((before.phase, self.rows.rows.phase))
        committed(self, node, before, written)

    monkeypatch.setattr(World, "turn_committed", watched)
    for seed in range(40):
        run_seed(seed)
    assert NATIVE.keys() - RARE <= seen


@pytest.mark.parametrize(
    ("mode", "became"), [("eager", Phase.PREPARING_REBALANCE), ("incremental", Phase.COMPLETING_REBALANCE)]
)
def test_who_comes_back_when_the_handler_has_finished_gets_its_share_at_once(
    mode: str, became: Phase
) -> None:
    group = Group(rows=GroupRows("readers", rebalance_mode=mode))
    group.register("ann")
    proposal = rebalance.compute(group.rows, LAYOUTS, group.surroundings.matches)
    group.turn(leaving("ann"))
    assert group.rows.phase is Phase.EMPTY
    group.turn(registering("ann"), ItemFinished("item-1", proposal))
    assert group.rows.phase is became


def test_the_last_member_leaves_while_an_attempt_is_open() -> None:
    group = Group(rows=GroupRows("readers", rebalance_mode="eager")).settled("ann")
    group.register("ben")
    assert group.rebalance().state.rows.phase is Phase.PREPARING_REBALANCE
    assert group.turn(leaving("ann"), leaving("ben")).state.rows.phase is Phase.EMPTY


def leaving(name: str) -> Heard:
    return Heard(ConnectionId(f"{name}/1"), LeaveRequest(correlation_id=1, consumer_id=name))


def test_a_group_whose_members_leave_before_they_have_started_is_empty() -> None:
    group = Group()
    group.register("ann")
    group.turn(ItemFinished("item-1", rebalance.compute(group.rows, LAYOUTS, group.surroundings.matches)))
    assert group.rows.phase == "CompletingRebalance"
    group.turn(leaving("ann"))
    assert group.rows.phase == "Empty"
