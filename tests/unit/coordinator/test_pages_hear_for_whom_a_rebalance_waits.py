"""An owner notes for whom an open rebalance waits, once it has waited for a while, and not too often."""

from typing import Any

from coordinator.core.events import Join
from coordinator.core.waiting import waits
from groups.core.phases import Phase
from muster.kernel.instants import Instant
from muster.kernel.shards import shard_of
from runtime import clock
from tests.unit.classic_core.group import REBALANCE_MS, ClassicGroup
from tests.unit.coordinator.shards import Seat, Shards, eventually, kafka_readers
from tests.unit.coordinator_core.group import Group

KEY = "kafka-readers"


def joining(seat: Seat, member_id: str) -> Join:
    return Join(
        connection=seat.id,
        waiter=seat.waiter(),
        fresh_member_id="fresh",
        member_id=member_id,
        client_id="c",
        protocol_type="consumer",
        protocols=(("range", b"other"),),
        session_timeout_ms=9_000,
        rebalance_timeout_ms=60_000,
    )


def test_a_join_phase_waits_for_who_has_not_joined() -> None:
    group = ClassicGroup()
    ann, ben = group.stable("a", "b")
    assert waits(group.state) is None
    group.join(ann)
    told = waits(group.state)
    assert told is not None and told.phase is Phase.PREPARING_REBALANCE
    assert (told.names, told.missing, told.arrived) == ((ben,), 1, 1)
    assert told.ends_at == group.now + REBALANCE_MS


def test_an_assignment_waits_for_who_has_not_asked() -> None:
    group = ClassicGroup()
    ann, ben = group.completed("a", "b")
    group.turn(group.syncing(ben))
    told = waits(group.state)
    assert told is not None and told.phase is Phase.COMPLETING_REBALANCE
    assert (told.names, told.missing, told.arrived) == ((ann,), 1, 1)


def test_a_native_attempt_waits_for_who_has_to_stop() -> None:
    group = Group().settled("ann")
    group.register("ben")
    group.rebalance()
    told = waits(group.state)
    assert told is not None and (told.names, told.missing, told.arrived) == (("ann",), 1, 0)
    assert told.ends_at == group.state.memory.sessions["ann"].stop_due_at


async def test_it_is_noted_when_it_has_waited_and_again_when_it_waits_for_others() -> None:
    rows = kafka_readers(KEY, ann=[0], ben=[1], cleo=[2])
    async with Shards([rows]) as shards:
        service = await shards.serve(KEY)
        began = clock.now()

        def later(ms: int) -> Instant:
            return Instant(began + ms)

        service.tick(began)
        seat = Seat()
        shards.premises.callers.add(seat, shard_of(KEY))
        service.request(seat, KEY, joining(seat, "ann"))
        await shards.settled(KEY)
        service.tick(later(1_000))
        await shards.settled(KEY)
        assert "waiting" not in shards.database.tables, "it may be over in a moment"
        service.tick(later(2_000))
        await eventually(lambda: "waiting" in shards.database.tables)
        assert told(shards).names == ("ben", "cleo")
        service.request(seat, KEY, joining(seat, "ben"))
        await shards.settled(KEY)
        service.tick(later(3_000))
        await eventually(lambda: told(shards).names == ("cleo",))
        assert not service._waits.look(later(4_000), began), "it waits for the same"
        assert service._waits.look(later(9_000), began), "and says so now and then"


def told(shards: Shards) -> Any:
    waiting, ends_in_ms = shards.database.tables["waiting"][KEY]
    assert 0 < ends_in_ms <= 60_000
    return waiting
