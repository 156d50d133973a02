"""What the journal keeps is enough: records travel as JSON, and folding them gives the live rows."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from groups.core.records import GroupRecord
from groups.core.rows import apply, count_assigned
from groups.core.state import GroupRows
from tests.simulation.native.faults import CAST, Faults
from tests.simulation.native.runner import simulated
from tests.unit.coordinator_core.group import Group


def test_a_state_that_was_handed_out_stays_as_it_was() -> None:
    group = Group().settled("ann", "ben")
    before, rows = group.state, group.rows
    members, owned = dict(rows.members), {name: dict(tenures) for name, tenures in rows.owned.items()}
    sessions, timers = dict(before.memory.sessions), before.memory.timers
    group.register("cleo")
    group.obey(group.rebalance())
    assert (dict(rows.members), {name: dict(each) for name, each in rows.owned.items()}) == (members, owned)
    assert (dict(before.memory.sessions), before.memory.timers) == (sessions, timers)


def test_mappings_that_a_turn_does_not_touch_are_shared() -> None:
    group = Group().settled("ann", "ben")
    before = group.rows
    group.register("cleo")
    assert group.rows.owned is before.owned and group.rows.offsets is before.offsets
    assert group.rows.members is not before.members


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_the_folded_journal_is_the_live_group(seed: int) -> None:
    with simulated(seed) as cluster:
        for name in CAST[:2]:
            cluster.start(name)
        Faults(cluster).unleash(6_000)
        cluster.world.run_until(7_000)
        journal = cluster.world.rows.tables["journal"].values()
        live, owner = cluster.world.rows.rows, cluster.owner
        remembered = owner.state if owner is not None and owner.status == "up" else None
    folded = GroupRows("readers", rebalance_mode=live.rebalance_mode)
    for turn in journal:
        folded = apply(folded, [msgspec.convert(record, GroupRecord) for record in turn.records])
    assert folded.members == live.members and folded.owned == live.owned
    assert (folded.generation, folded.version, folded.phase, folded.handler_asked) == (
        live.generation,
        live.version,
        live.phase,
        live.handler_asked,
    )
    if remembered is not None and remembered.rows.version == live.version:
        assert count_assigned(folded) == remembered.memory.assigned
