"""What the journal keeps is enough: records travel as JSON, and folding them gives the live rows."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from groups.core.records import GroupRecord
from groups.core.rows import apply, count_assigned
from groups.core.state import GroupRows
from tests.simulation.native.cluster import Cluster
from tests.simulation.native.faults import CAST, Faults
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
    cluster = Cluster(seed)
    journal: list[tuple[bytes, ...]] = []
    save = cluster.world.save

    def journalled(epoch: int, before: GroupRows, decision: object) -> bool:
        saved = save(epoch, before, decision)  # type: ignore[arg-type]
        if saved:
            journal.append(tuple(map(msgspec.json.encode, decision.records)))  # type: ignore[attr-defined]
        return saved

    cluster.world.save = journalled  # type: ignore[method-assign]
    for name in CAST[:2]:
        cluster.start(name)
    Faults(cluster).unleash(6_000)
    cluster.world.run_until(7_000)
    live = cluster.world.database.rows
    folded = GroupRows("readers", rebalance_mode=live.rebalance_mode)
    for turn in journal:
        folded = apply(folded, [msgspec.json.decode(record, type=GroupRecord) for record in turn])
    assert folded.members == live.members and folded.owned == live.owned
    assert (folded.generation, folded.version, folded.phase, folded.handler_asked) == (
        live.generation,
        live.version,
        live.phase,
        live.handler_asked,
    )
    assert count_assigned(folded) == cluster.owner.state.memory.assigned or cluster.owner.status != "up"
