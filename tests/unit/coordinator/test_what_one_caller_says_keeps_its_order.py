"""What one caller says is decided in its order, though turns and batches overtake each other in a lane."""

import asyncio
from typing import Never

import pytest

from coordinator.backlog import WEIGHT_OF_ONE, Backlog
from coordinator.callers import HELD_MAX, Orders, Way
from coordinator.core.events import ConnectionId
from coordinator.core.offsets import Judgement
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import (
    LeaveRequest,
    LeaveResponse,
    PingResponse,
    StopFetcherRequest,
    StopFetcherResponse,
)
from muster.messages.partitions import Position, positions_by_topic
from tests.unit.coordinator.kafka_clients import AT_ONCE, KafkaClient, stable
from tests.unit.coordinator.shards import Asked, Caller, Shards, eventually, readers, registering
from tests.unit.coordinator_core.group import orders

KEY = "readers"
ANN = ConnectionId("ann/1")


async def test_a_commit_that_came_before_a_leave_is_written_before_it() -> None:
    async with Shards([readers(ann=[0], ben=[1])]) as shards:
        service = await shards.serve(KEY)
        ann, ben = await shards.registered(KEY, "ann"), await shards.registered(KEY, "ben")
        shards.store.gate.clear()
        shards.commit(ben, KEY, {orders(1): Position(3, 1)})
        await eventually(shards.store.at_the_gate.is_set)
        # A batch is being written: what comes now has to wait for the next, and a turn would come before it.
        shards.commit(ann, KEY, {orders(0): Position(9, 1)})
        service.hear(ann, KEY, LeaveRequest(correlation_id=2, consumer_id="ann"))
        shards.store.gate.set()
        await eventually(lambda: any(isinstance(one, LeaveResponse) for one in ann.said))
        assert [one.error for one in ann.judged] == [ErrorCode.NONE]
        assert shards.rows(KEY).offsets[orders(0)] == 9
        assert "ann" not in shards.rows(KEY).members


async def test_what_is_acknowledged_is_not_overwritten_by_the_stop_answer_before_it() -> None:
    async with Shards([readers(mode="eager", ann=[0], ben=[1])]) as shards:
        service = await shards.serve(KEY)
        ann, ben = await shards.registered(KEY, "ann"), await shards.registered(KEY, "ben")
        await shards.finish(KEY, {"ann": [1], "ben": [0]})
        await eventually(lambda: any(isinstance(one, StopFetcherRequest) for one in ann.said))
        [stop] = [one for one in ann.said if isinstance(one, StopFetcherRequest)]
        for caller, partition in ((ann, orders(0)), (ben, orders(1))):
            service.hear(
                caller,
                KEY,
                StopFetcherResponse(
                    consumer_id=caller.name,
                    generation=stop.generation,
                    version=stop.version,
                    offset_info=positions_by_topic({partition: Position(5, 1)}),
                ),
            )
            if caller is ann:
                shards.commit(ann, KEY, {orders(0): Position(6, 1)})
                await eventually(lambda: ann.judged)
        await eventually(lambda: shards.rows(KEY).generation == 2)
        assert ann.judged[0].accepted == {orders(0): 6}
        assert shards.rows(KEY).offsets == {orders(0): 6, orders(1): 5}


class Said:
    """Which of the things handed to an order went on."""

    def __init__(self) -> None:
        self.gone: list[str] = []
        self.orders = Orders(self.gone.append, self.gone.append)

    def say(self, way: Way, what: str) -> bool:
        return self.orders.turn(ANN, what) if way is Way.TURN else self.orders.batch(ANN, what)


def test_of_one_way_all_goes_on_at_once() -> None:
    said = Said()
    for number in range(3):
        said.say(Way.TURN, f"turn {number}")
    assert said.gone == ["turn 0", "turn 1", "turn 2"]


def test_the_other_way_waits_until_all_before_it_is_done() -> None:
    said = Said()
    for way, what in ((Way.BATCH, "a"), (Way.BATCH, "b"), (Way.TURN, "c"), (Way.TURN, "d"), (Way.BATCH, "e")):
        said.say(way, what)
    assert said.gone == ["a", "b"]
    said.orders.done(ANN)
    assert said.gone == ["a", "b"]
    said.orders.done(ANN)
    assert said.gone == ["a", "b", "c", "d"]
    said.orders.done(ANN)
    said.orders.done(ANN)
    assert said.gone == ["a", "b", "c", "d", "e"]


def test_callers_do_not_wait_for_each_other() -> None:
    said = Said()
    said.say(Way.BATCH, "a")
    said.orders.turn(ConnectionId("ben/1"), "ben")
    assert said.gone == ["a", "ben"]


def test_what_waits_has_a_bound() -> None:
    said = Said()
    said.say(Way.BATCH, "a")
    assert all(said.say(Way.TURN, "more") for _ in range(HELD_MAX))
    assert not said.say(Way.TURN, "too much")


@pytest.mark.parametrize("way", list(Way))
def test_nothing_is_kept_of_a_caller_that_waits_for_nothing(way: Way) -> None:
    said = Said()
    said.say(way, "a")
    said.orders.done(ANN)
    assert said.orders._lines == {}


def test_the_farewell_of_a_caller_keeps_its_place_behind_all_that_waits() -> None:
    said = Said()
    said.say(Way.BATCH, "commit")
    assert all(said.say(Way.TURN, "more") for _ in range(HELD_MAX))
    said.orders.turn(ANN, "closed", last=True)
    assert said.gone == ["commit"]
    said.orders.done(ANN)
    assert said.gone[-1] == "closed"


async def test_all_that_waits_for_a_turn_is_refused_when_its_lane_closes_meanwhile() -> None:
    async with Shards([readers(ann=[0], ben=[1])]) as shards:
        service = await shards.serve(KEY)
        ann, ben = await shards.registered(KEY, "ann"), await shards.registered(KEY, "ben")
        shards.store.gate.clear()
        service.hear(ben, KEY, LeaveRequest(correlation_id=2, consumer_id="ben"))
        service.hear(ann, KEY, LeaveRequest(correlation_id=2, consumer_id="ann"))
        await eventually(shards.store.at_the_gate.is_set)
        for _ in range(HELD_MAX):
            shards.commit(ann, KEY, {orders(0): Position(9, 1)})
        # The shard is given away: after this turn nothing more is written here.
        resigned = asyncio.ensure_future(shards.held[service.shard].resign())
        await asyncio.sleep(0)
        shards.store.gate.set()
        assert await resigned
        assert [one.error for one in ann.judged] == [ErrorCode.NOT_COORDINATOR] * HELD_MAX
        assert ben.hung_up == [(ErrorCode.NONE, "left")]


async def test_what_was_being_written_when_its_lane_closed_is_known_to_the_turns_behind_it() -> None:
    async with Shards([readers(ann=[0], ben=[1])]) as shards:
        service = await shards.serve(KEY)
        ann, ben = await shards.registered(KEY, "ann"), await shards.registered(KEY, "ben")
        shards.store.gate.clear()
        shards.commit(ann, KEY, {orders(0): Position(9, 1)})
        await eventually(shards.store.at_the_gate.is_set)
        resigned = asyncio.ensure_future(shards.held[service.shard].resign())
        await asyncio.sleep(0)
        shards.commit(ben, KEY, {orders(1): Position(5, 1)})
        assert [one.error for one in ben.judged] == [ErrorCode.NOT_COORDINATOR]
        assert ann.judged == []
        shards.store.gate.set()
        assert await resigned
        assert [one.error for one in ann.judged] == [ErrorCode.NONE]
        assert service._groups.states[KEY].rows.offsets == {orders(0): 9}


async def test_a_commit_that_cannot_be_judged_or_answered_makes_nobody_else_deaf() -> None:
    def fails(_: object) -> Never:
        raise ValueError("a mistake of ours")

    async with Shards([readers(ann=[0], ben=[1])]) as shards:
        service = await shards.serve(KEY)
        ann, ben = await shards.registered(KEY, "ann"), await shards.registered(KEY, "ben")
        service.commit(Asked(KEY, ben.id, fails, ben.judged.append))
        service.commit(Asked(KEY, ben.id, lambda state: Judgement(), fails))
        shards.commit(ann, KEY, {orders(0): Position(9, 1)})
        await eventually(lambda: ann.judged)
        assert [one.error for one in ben.judged] == [ErrorCode.UNKNOWN_SERVER_ERROR]
        assert [one.error for one in ann.judged] == [ErrorCode.NONE]
        assert service._orders._lines == {}


async def test_while_time_stands_still_one_caller_cannot_fill_the_memory() -> None:
    async with Shards([readers(ann=[0])]) as shards:
        service = await shards.serve(KEY)
        ann = await shards.registered(KEY, "ann")
        shards.freshness.freeze()
        kept = [
            service.hear(ann, KEY, PingResponse(consumer_id="ann", number=1)) for _ in range(2 * HELD_MAX)
        ]
        assert sum(kept) == HELD_MAX
        service.closed(ann, KEY)
        shards.freshness.thaw()
        await shards.settled(KEY)
        assert service._groups.states[KEY].memory.sessions["ann"].connection is None
        assert service._orders._lines == {}


async def test_whoever_comes_and_goes_while_time_stands_still_leaves_nothing() -> None:
    async with Shards([readers(ann=[0])]) as shards:
        service = await shards.serve(KEY)
        shards.freshness.freeze()
        for name in ["ann", *(f"stranger-{number}" for number in range(100))]:
            caller = Caller(name)
            shards.premises.callers.add(caller, service.shard)
            assert service.hear(caller, KEY, registering(KEY, name))
            if name != "ann":
                service.hear(caller, KEY, LeaveRequest(correlation_id=2, consumer_id=name))
            shards.premises.callers.remove(caller, service.shard)
            service.closed(caller, KEY)
        assert service._orders._lines == {}
        shards.freshness.thaw()
        service.thaw(late_ms=0)
        await shards.settled(KEY)
        assert shards.rows(KEY).members.keys() == {"ann"}


async def test_kafka_clients_that_come_and_go_while_time_stands_still_leave_nothing() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann"), KafkaClient(shards, "ben")
        await stable(ann, ben)
        shards.freshness.freeze()
        for number in range(100):
            stranger = KafkaClient(shards, f"stranger-{number}")
            stranger.member_id = "nobody" if number % 2 else ""
            stranger.asks_to_join()
            stranger.asks_to_leave()
            stranger.hangs_up()
        assert ann.service._orders._lines == {}
        ann.asks_for_its_share()
        ann.hangs_up()
        assert ann.service._orders._lines == {}
        # A member that leaves and hangs up has left.
        ben.asks_to_leave()
        ben.hangs_up()
        shards.freshness.thaw()
        ann.service.thaw(late_ms=0)
        await shards.settled(ann.key)
        rows = shards.rows(ann.key).classic
        assert rows is not None
        assert rows.members.keys() == {ann.member_id}


async def test_farewells_of_those_who_are_gone_are_kept_as_far_as_there_is_room() -> None:
    """Whoever may say that a member leaves could say it on one connection after the other, without end."""
    async with Shards(settings=AT_ONCE) as shards:
        ann, ben = KafkaClient(shards, "ann"), KafkaClient(shards, "ben")
        await stable(ann, ben)
        backlog = ann.service._orders._backlog = Backlog(most=100)
        shards.freshness.freeze()
        for number in range(100):
            again = KafkaClient(shards, f"again-{number}")
            again.member_id = ben.member_id
            again.asks_to_leave()
            again.hangs_up()
        assert 0 < len(ann.service._orders._lines) <= 100 // WEIGHT_OF_ONE
        shards.freshness.thaw()
        ann.service.thaw(late_ms=0)
        await shards.settled(ann.key)
        rows = shards.rows(ann.key).classic
        assert rows is not None and rows.members.keys() == {ann.member_id}
        assert (ann.service._orders._lines, backlog._weight) == ({}, 0)


@pytest.mark.parametrize("ends", ["thaws", "is given up"])
async def test_so_are_those_of_members_of_our_own(ends: str) -> None:
    async with Shards([readers(ann=[0], ben=[1])]) as shards:
        service = await shards.serve(KEY)
        backlog = service._orders._backlog = service._commits._backlog = Backlog(most=100)
        shards.freshness.freeze()
        for number in range(100):
            caller = Caller(f"again-{number}")
            shards.premises.callers.add(caller, service.shard)
            assert service.hear(caller, KEY, registering(KEY, "ann"))
            shards.commit(caller, KEY, {orders(0): Position(9, 1)})
            service.hear(caller, KEY, LeaveRequest(correlation_id=2, consumer_id="ann"))
            shards.premises.callers.remove(caller, service.shard)
            service.closed(caller, KEY)
        assert 0 < len(service._orders._lines) <= 100 // WEIGHT_OF_ONE
        if ends == "thaws":
            shards.freshness.thaw()
            service.thaw(late_ms=0)
            await eventually(lambda: not service._orders._lines)
        else:
            await service.give_up(None)
            shards.freshness.thaw()
        assert (service._orders._lines, backlog._weight) == ({}, 0)


async def test_whoever_came_while_time_stood_still_is_heard_after_it_in_its_order() -> None:
    async with Shards([readers(ann=[0], ben=[1])]) as shards:
        service = await shards.serve(KEY)
        shards.freshness.freeze()
        ann, ben = Caller("ann"), Caller("ben")
        for caller in (ann, ben):
            shards.premises.callers.add(caller, service.shard)
            service.hear(caller, KEY, registering(KEY, caller.name))
        shards.commit(ann, KEY, {orders(0): Position(9, 1)})
        service.hear(ben, KEY, LeaveRequest(correlation_id=2, consumer_id="ben"))
        # A member that leaves and hangs up has left.
        shards.premises.callers.remove(ben, service.shard)
        service.closed(ben, KEY)
        shards.freshness.thaw()
        service.tick(shards.premises.node.now())
        await eventually(lambda: ann.judged)
        assert [one.error for one in ann.judged] == [ErrorCode.NONE]
        await shards.settled(KEY)
        assert shards.rows(KEY).members.keys() == {"ann"}
        assert shards.rows(KEY).offsets == {orders(0): 9}
        assert service._orders._lines == {}
