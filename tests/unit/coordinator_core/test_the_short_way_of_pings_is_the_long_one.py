"""What is decided about pings and their answers without a turn is what a turn would have decided."""

from collections import Counter
from dataclasses import replace
from random import Random

from msgspec import structs

from coordinator.core.decide import decide, hear_at_once
from coordinator.core.events import ConnectionClosed, ConnectionId, Heard, Say, TopicsChanged
from coordinator.core.memory import GroupState
from coordinator.core.native import beats
from muster.kernel.instants import Instant
from muster.messages.member import PingRequest
from muster.messages.partitions import Partition, Position, by_topic
from tests.unit.coordinator_core.group import SESSION_MS, Group, orders, ping_answer, registering

NAMES = ("ann", "ben", "cleo")
WALKS = 40
STEPS = 60


def comparable(state: GroupState) -> GroupState:
    """Timers are a heap: the order of its entries says nothing."""
    memory = structs.replace(state.memory, timers=tuple(sorted(state.memory.timers)))
    return structs.replace(state, memory=memory)


class Walk:
    """A group to which anything may happen; at each step both ways are asked, and the long one is gone."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.group = Group().settled(*NAMES)
        self.taken: Counter[str] = Counter()
        self.registered = 0

    def step(self) -> None:
        match self.dice.randrange(24):
            case 0:
                name, self.registered = self.dice.choice(NAMES), self.registered + 1
                self.group.turn(registering(name, connection=f"{name}/{self.registered}"))
            case 1 if self.group.rows.handler_asked:
                self.group.rebalance()
            case 2:
                self.group.turn(TopicsChanged())
            case 3 if self.group.state.memory.bound:
                self.group.turn(ConnectionClosed(self.dice.choice(list(self.group.state.memory.bound))))
            case 4 | 5 | 6 | 7 | 8 | 9 | 10:
                self.time_passes()
            case _:
                self.somebody_answers()

    def time_passes(self) -> None:
        group = self.group
        group.now = Instant(group.now + self.dice.choice((1, 100, SESSION_MS // 6, SESSION_MS // 3)))
        pinged = beats.ping(group.state, group.now, group.surroundings)
        decision = decide(group.state, (), group.now, group.settings, group.surroundings)
        if pinged is not None:
            assert (decision.records, decision.replies, decision.commands) == ((), (), pinged.pings)
            assert comparable(pinged.state) == comparable(decision.state)
            self.taken["pinged"] += bool(pinged.pings)
        self.group.obey(group.turn())

    def somebody_answers(self) -> None:
        group, memory = self.group, self.group.state.memory
        if not memory.bound:
            return
        connection = self.dice.choice(list(memory.bound))
        name = memory.bound[connection]
        number = memory.sessions[name].ping_number - self.dice.choice((0, 0, 0, 0, 1))
        if number < 0:
            return
        event = ping_answer(
            self.dice.choice((name, name, name, "dora")), number, self.fetched(name), connection
        )
        heard = beats.answered(group.state, event, group.now, group.settings)
        decision = hear_at_once(group.state, event, group.now, group.settings, group.surroundings)
        if heard is not None:
            assert not decision.commands
            assert comparable(heard) == comparable(decision.state)
            self.taken["heard"] += heard is not group.state
        group.state = decision.state

    def fetched(self, name: str) -> dict[Partition, Position]:
        """Mostly what the rows say, at a place and under a generation that may be anything."""
        owned = list(self.group.rows.owned.get(name, {}))
        if self.dice.random() < 0.2:
            owned = self.dice.sample([orders(number) for number in range(6)], 2)
        generations = (self.group.rows.generation, self.group.rows.generation, 0, 99)
        return {one: Position(self.dice.choice((-1, 5, 6)), self.dice.choice(generations)) for one in owned}


def test_both_ways_decide_the_same() -> None:
    taken: Counter[str] = Counter()
    for seed in range(WALKS):
        walk = Walk(seed)
        for _ in range(STEPS):
            walk.step()
        taken += walk.taken
    # Else nothing was compared.
    assert taken["pinged"] > WALKS and taken["heard"] > WALKS


def test_a_partition_that_is_named_twice_hides_none() -> None:
    group = Group().settled("ann")
    group.wait(SESSION_MS // 3)
    owned = [Partition(*one) for one in group.rows.owned["ann"]]
    positions = {one: Position(5, 1) for one in owned}
    event = ping_answer("ann", 1, positions)
    [info] = event.message.offset_info  # type: ignore[union-attr]
    doubled = structs.replace(info, partitions=(*info.partitions[:-1], info.partitions[0]))
    event = Heard(event.connection, structs.replace(event.message, offset_info=(doubled,)))
    assert beats.answered(group.state, event, group.now, group.settings) is None


def test_who_has_not_answered_is_left_to_a_turn() -> None:
    group = Group().settled("ann")
    group.wait(SESSION_MS // 3)
    group.now = Instant(group.now + SESSION_MS // 3)
    assert beats.ping(group.state, group.now, group.surroundings) is None


def test_a_ping_names_the_connection_and_the_generation() -> None:
    group = Group().settled("ann")
    group.now = Instant(group.now + SESSION_MS // 3)
    pinged = beats.ping(group.state, group.now, group.surroundings)
    assert pinged is not None
    request = PingRequest(consumer_id="ann", number=1, num_retries=0, generation=1)
    assert pinged.pings == (Say(ConnectionId("ann/1"), request),)


def test_who_stands_by_for_something_is_left_to_the_long_way() -> None:
    group = Group().settled("ann")
    group.wait(SESSION_MS // 3)
    event = ping_answer("ann", 1, {one: Position(5, 1) for one in group.rows.owned["ann"]})
    assert beats.answered(group.state, event, group.now, group.settings) is not None
    rows = replace(group.rows, standbys={"ann": frozenset([orders(0)])})
    others = structs.replace(group.state, rows=rows)
    assert beats.answered(others, event, group.now, group.settings) is None
    says_so = structs.replace(event.message, standby_info=by_topic([orders(0)]))
    event = Heard(event.connection, says_so)
    assert beats.answered(group.state, event, group.now, group.settings) is None
