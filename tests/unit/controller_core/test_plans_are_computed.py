"""This room checks computed plans by their properties: who holds what afterwards, and how little moved."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.loads import Loads
from controller.core.placement import Place
from controller.core.proposals import DoneStep, Proposal, StoredBroker, StoredPartition, propose
from muster.messages.link.plans import PlanKind, PlannedMove, PlanOptions

ORDERS, CLICKS = UUID(int=1), UUID(int=2)
TOPICS = {ORDERS: "orders", CLICKS: "clicks"}


@dataclass
class World:
    """A cluster as a worker reads it."""

    brokers: list[StoredBroker]
    partitions: list[StoredPartition]

    @property
    def ids(self) -> list[int]:
        return [one.broker_id for one in self.brokers]

    def racks(self, replicas: tuple[int, ...]) -> int:
        racks = {one.broker_id: one.rack for one in self.brokers}
        return len({racks[b] for b in replicas})

    def plan(
        self, kind: PlanKind, throttle: int = 0, undone: Sequence[DoneStep] = (), **more: Any
    ) -> Proposal:
        options = PlanOptions(kind=kind, **more)
        return propose(options, throttle, self.brokers, TOPICS, self.partitions, undone)

    def after(self, proposal: Proposal) -> dict[tuple[UUID, int], tuple[int, ...]]:
        assert len({step.key for step in proposal.steps}) == len(proposal.steps), "each partition once"
        assert [step.number for step in proposal.steps] == list(range(len(proposal.steps)))
        now = {(one.topic_id, one.partition): one.assigned for one in self.partitions}
        for step in proposal.steps:
            assert step.origin == now[step.key] != step.target
            assert len(set(step.target)) == len(step.target) > 0
            now[step.key] = step.target
        return now


def partition(
    number: int, *assigned: int, topic: UUID = ORDERS, size: int = 10, moving: bool = False
) -> StoredPartition:
    return StoredPartition(topic, number, assigned, assigned[0], assigned, 5, size, moving)


def world(
    replicas: list[tuple[int, ...]], racks: dict[int, str], troubled: frozenset[int] = frozenset()
) -> World:
    brokers = [StoredBroker(b, rack, True, False, b in troubled) for b, rack in sorted(racks.items())]
    return World(brokers, [partition(number, *assigned) for number, assigned in enumerate(replicas)])


@st.composite
def worlds(draw: st.DrawFn, racks: tuple[str, ...] = ("a", "b", "c"), most_replicas: int = 4) -> World:
    """From two to nine brokers, some dead or cordoned, and whatever lies on them."""
    chance = draw(st.randoms(use_true_random=False))
    ids = range(1, draw(st.integers(2, 9)) + 1)
    brokers = [
        StoredBroker(b, chance.choice(racks), chance.random() > 0.1, chance.random() > 0.9) for b in ids
    ]
    factor = draw(st.integers(1, min(most_replicas, len(ids))))
    partitions = []
    for number in range(draw(st.integers(1, 40))):
        assigned = tuple(chance.sample(ids, factor))
        isr = tuple(b for b in assigned if chance.random() > 0.2) or assigned[:1]
        size, moving = chance.randint(-1, 1_000), chance.random() > 0.9
        partitions.append(StoredPartition(ORDERS, number, assigned, isr[0], isr, 5, size, moving))
    return World(brokers, partitions)


def counts(replicas: list[tuple[int, ...]]) -> Counter[int]:
    return Counter(b for one in replicas for b in one)


def may_get(one: World) -> list[int]:
    return [b.broker_id for b in one.brokers if b.live and not b.cordoned]


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from([PlanKind.SPREAD, PlanKind.RACKS, PlanKind.FILL, PlanKind.DRAIN]), st.data())
def test_no_plan_touches_what_moves_or_worsens_racks_or_places_on_who_gets_nothing(
    one: World, kind: PlanKind, data: st.DataObject
) -> None:
    brokers = tuple(data.draw(st.sets(st.sampled_from(one.ids), min_size=1, max_size=2)))
    proposal = one.plan(kind, brokers=brokers if kind in (PlanKind.FILL, PlanKind.DRAIN) else ())
    assert bool(proposal.failure) is not bool(proposal.steps)
    one.after(proposal)
    moving = {(p.topic_id, p.partition) for p in one.partitions if p.moving}
    allowed = set(may_get(one)) - (set(brokers) if kind is PlanKind.DRAIN else set())
    for step in proposal.steps:
        assert step.key not in moving
        assert len(step.target) == len(step.origin)
        assert set(step.target) - set(step.origin) <= allowed
        if kind is not PlanKind.DRAIN:
            assert one.racks(step.target) >= one.racks(step.origin)


@settings(max_examples=60, deadline=None)
@given(worlds(racks=("a",)))
def test_a_spread_cluster_is_even_where_no_rack_hinders_and_stays_so(one: World) -> None:
    one.partitions = [msgspec.structs.replace(each, moving=False) for each in one.partitions]
    after = list(one.after(one.plan(PlanKind.SPREAD)).values())
    held = [counts(after)[b] for b in may_get(one)] or [0]
    assert max(held) - min(held) <= 1
    again = World(one.brokers, [partition(n, *replicas) for n, replicas in enumerate(after)])
    assert all(set(step.target) == set(step.origin) for step in again.plan(PlanKind.SPREAD).steps)


def test_an_empty_broker_gets_one_from_each_that_has_more_than_the_mean() -> None:
    one = world([(b,) for b in (1, 2, 3, 4) for _ in range(4)], dict.fromkeys(range(1, 6), "a"))
    after = one.after(one.plan(PlanKind.SPREAD))
    assert counts(list(after.values())) == {1: 3, 2: 3, 3: 3, 4: 4, 5: 3}


@settings(max_examples=60, deadline=None)
@given(worlds(racks=("a",), most_replicas=1))
def test_a_spread_moves_no_more_than_it_must(one: World) -> None:
    """Whoever has most keeps one more than the others, if it does not come out even."""
    one.partitions = [msgspec.structs.replace(each, moving=False) for each in one.partitions]
    proposal, allowed = one.plan(PlanKind.SPREAD), may_get(one)
    held = counts([each.assigned for each in one.partitions])
    low, extra = divmod(sum(held[b] for b in allowed), max(1, len(allowed)))
    have = sorted((held[b] for b in allowed), reverse=True)
    assert len(proposal.steps) == sum(max(0, n - low - (at < extra)) for at, n in enumerate(have))


@settings(max_examples=60, deadline=None)
@given(worlds(), st.data())
def test_a_drained_broker_holds_nothing_but_what_was_left_out(one: World, data: st.DataObject) -> None:
    leavers = data.draw(st.sets(st.sampled_from(one.ids), min_size=1, max_size=2))
    proposal = one.plan(PlanKind.DRAIN, brokers=tuple(leavers))
    after = one.after(proposal)
    left = [p for p in one.partitions if leavers & set(after[p.topic_id, p.partition])]
    assert len(left) == sum(1 for p in one.partitions if leavers & set(p.assigned)) - len(proposal.steps)
    for each in left:
        free = set(may_get(one)) - leavers - set(each.assigned)
        assert each.moving or len(free) < len(leavers & set(each.assigned))
    for step in proposal.steps:
        assert leavers & set(step.origin), "nobody else's moves"


@settings(max_examples=60, deadline=None)
@given(worlds(), st.integers(1, 5))
def test_another_replication_factor_keeps_who_is_first_and_who_is_in_sync(one: World, factor: int) -> None:
    proposal = one.plan(PlanKind.REPLICATION_FACTOR, replication_factor=factor)
    isr = {(p.topic_id, p.partition): set(p.isr) for p in one.partitions}
    for step in proposal.steps:
        assert len(step.target) == factor
        assert step.target[0] == step.origin[0]
        gone = set(step.origin) - set(step.target)
        kept = set(step.target) - {step.target[0]}
        assert not gone & isr[step.key] or kept <= isr[step.key], "who is out of sync goes first"


def test_a_spread_gives_each_its_share_of_first_places() -> None:
    one = world([(1, 2, 3)] * 9, {1: "a", 2: "b", 3: "c"})
    proposal = one.plan(PlanKind.SPREAD)
    assert Counter(replicas[0] for replicas in one.after(proposal).values()) == {1: 3, 2: 3, 3: 3}
    assert proposal.cost is not None
    assert (proposal.cost.bytes, proposal.cost.replicas_added, proposal.cost.leaders_moved) == (0, 0, 6)


def test_a_new_broker_gets_as_much_as_the_others_and_nothing_else_moves() -> None:
    one = world([(1, 2), (2, 3), (3, 1)] * 8, {1: "", 2: "", 3: "", 4: ""})
    proposal = one.plan(PlanKind.FILL, brokers=(4,))
    after = list(one.after(proposal).values())
    assert counts(after)[4] == 12 == len(proposal.steps)
    assert Counter(replicas[0] for replicas in after)[4] == 6
    assert all(4 in step.target for step in proposal.steps)


def test_racks_are_used_where_there_are_enough() -> None:
    one = world([(1, 2), (1, 3), (3, 4)], {1: "a", 2: "a", 3: "b", 4: "b"})
    proposal = one.plan(PlanKind.RACKS)
    assert [step.partition for step in proposal.steps] == [2, 0] or len(proposal.steps) == 2
    assert all(one.racks(replicas) == 2 for replicas in one.after(proposal).values())
    same = world([(1, 2)], {1: "a", 2: "a"})
    assert same.plan(PlanKind.RACKS).failure == "The brokers stand on one rack, or do not say on which."


def test_what_cannot_be_placed_is_left_out_and_said() -> None:
    one = world([(1, 2, 3)], {1: "", 2: "", 3: ""})
    failure = one.plan(PlanKind.DRAIN, brokers=(1,)).failure
    assert failure == "There is nothing to move. 1 left out: no other broker may get it (orders-0)"
    one = World(one.brokers, [partition(0, 1, 2), partition(1, 1, 2, 3), partition(2, 1, 3, moving=True)])
    proposal = one.plan(PlanKind.DRAIN, brokers=(1,))
    assert proposal.cost is not None
    assert [(each.why, each.names) for each in proposal.cost.left_out] == [
        ("another reassignment moves it", ("orders-2",)),
        ("no other broker may get it", ("orders-1",)),
    ]
    assert [step.target for step in proposal.steps] == [(2, 3)], "in sync and first: its leader need not wait"


def test_only_the_topics_that_are_named_move() -> None:
    one = world([(1,), (1,)], {1: "", 2: ""})
    one.partitions.append(partition(0, 1, topic=CLICKS))
    proposal = one.plan(PlanKind.DRAIN, brokers=(1,), topics=("clicks",))
    assert [step.topic for step in proposal.steps] == ["clicks"]


def test_an_explicit_plan_goes_where_it_is_told() -> None:
    one = world([(1, 2), (2, 3), (3, 1)], {1: "", 2: "", 3: ""})
    moves = tuple(
        PlannedMove(topic="orders", partition=number, replicas=replicas)
        for number, replicas in enumerate([(3, 2), (2, 3), (1, 3)])
    )
    proposal = one.plan(PlanKind.EXPLICIT, partitions=moves)
    assert [(step.partition, step.target) for step in proposal.steps] == [(2, (1, 3)), (0, (3, 2))]
    assert proposal.cost is not None
    assert proposal.cost.left_out[0].why == "it is there already"


def test_an_undone_plan_goes_back_where_it_still_stands() -> None:
    one = world([(3, 2), (1, 3), (3, 1)], {1: "", 2: "", 3: ""})
    done = [DoneStep(ORDERS, n, (1, 2), (3, 2)) for n in (0, 1)] + [DoneStep(ORDERS, 2, (9, 1), (3, 1))]
    proposal = one.plan(PlanKind.UNDO, undone=done)
    assert [(step.partition, step.target) for step in proposal.steps] == [(0, (1, 2))]
    assert proposal.cost is not None
    assert [each.why for each in proposal.cost.left_out] == [
        "a broker that held it is no more",
        "it was moved again since",
    ]
    assert one.plan(PlanKind.UNDO).failure == "That plan has moved nothing."


def test_the_cost_says_bytes_leaders_and_hours_of_the_busiest_broker() -> None:
    one = world([(1, 2), (1, 2), (1, 2)], {1: "", 2: "", 3: ""})
    sizes = (7_200_000, -1, 3_600_000)
    one.partitions = [
        StoredPartition(ORDERS, n, (1, 2), 1, (1, 2), 5, size, False) for n, size in enumerate(sizes)
    ]
    cost = one.plan(PlanKind.DRAIN, throttle=1_000, brokers=(1,)).cost
    assert cost is not None
    assert (cost.partitions, cost.bytes, cost.replicas_added) == (3, 10_800_000, 3)
    assert (cost.leaders_moved, cost.unknown_sizes) == (3, 1)
    assert (cost.busiest_broker, cost.busiest_bytes) == (1, 10_800_000)
    assert cost.hours == pytest.approx(3.0)
    shares = [msgspec.to_builtins(share)[:5] for share in cost.brokers]
    assert shares == [[1, 3, 0, 3, 0], [2, 3, 3, 0, 2], [3, 0, 3, 0, 1]]


def test_by_turns_each_broker_is_asked_to_take_one() -> None:
    one = world([(1,)] * 6, {1: "", 2: "", 3: ""})
    taken = [step.target[0] for step in one.plan(PlanKind.DRAIN, brokers=(1,)).steps]
    assert taken == [2, 3, 2, 3, 2, 3]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(0, 9)), max_size=40), st.data())
def test_the_least_is_found_whatever_was_moved(
    moves: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    places = [Place(b, "abc"[b % 3]) for b in range(1, 6)]
    held = dict.fromkeys(range(1, 7), (50, 500))
    loads = Loads(places, held)
    for source, target, size in moves:
        loads.move(source, target, size)
        for broker_id, more in ((source, -1), (target, 1)):
            replicas, total = held[broker_id]
            held[broker_id] = replicas + more, total + more * size
        without = data.draw(st.sets(st.integers(1, 6), max_size=3))
        not_on = data.draw(st.sets(st.sampled_from("abc"), max_size=2))
        left = [p for p in places if p.broker_id not in without and p.rack not in not_on]
        best = min(((*held[p.broker_id], p.broker_id) for p in left), default=None)
        assert loads.least(without, not_on) == (best[2] if best else None)


def test_nothing_goes_to_a_broker_in_trouble_while_others_are_enough() -> None:
    replicas: list[tuple[int, ...]] = [(1, 2), (2, 1)] * 4
    racks = dict.fromkeys((1, 2, 3, 4), "")
    spread = world(replicas, racks, frozenset({3})).plan(PlanKind.SPREAD)
    assert {b for step in spread.steps for b in step.target} == {1, 2, 4}
    drained = world(replicas, racks, frozenset({3, 4})).plan(PlanKind.DRAIN, brokers=(1,))
    assert {b for step in drained.steps for b in step.target} == {2, 3, 4}, "without them none would be left"


def test_a_broker_in_trouble_gives_what_it_has_too_much_of() -> None:
    full, racks = frozenset({1}), dict.fromkeys((1, 2, 3, 4), "")
    for kind, brokers in ((PlanKind.FILL, (4,)), (PlanKind.SPREAD, ())):
        plan = world([(1, 2), (1, 3)] * 12, racks, full).plan(kind, brokers=brokers)
        assert {b for step in plan.steps for b in set(step.origin) - set(step.target)} == {1}
        assert {b for step in plan.steps for b in set(step.target) - set(step.origin)} == {4}


def test_a_partition_that_needs_all_brokers_opens_none_in_trouble_to_the_others() -> None:
    one = world([(1, 2, 3, 4), *[(1,)] * 8], dict.fromkeys((1, 2, 3, 4), ""), frozenset({4}))
    for kind, brokers in ((PlanKind.DRAIN, (1,)), (PlanKind.SPREAD, ())):
        after = one.after(one.plan(kind, brokers=brokers))
        assert counts(list(after.values()))[4] == 1
        assert 4 not in {replicas[0] for replicas in after.values()}


def test_where_all_are_needed_one_in_trouble_follows_and_stands_first_for_nothing() -> None:
    racks = dict.fromkeys((1, 2, 3), "")
    plan = world([(1,)] * 6, racks, frozenset({3})).plan(PlanKind.REPLICATION_FACTOR, replication_factor=3)
    assert {step.target for step in plan.steps} == {(1, 2, 3)}
    drained = world([(1, 2)] * 6, racks, frozenset({3})).plan(PlanKind.DRAIN, brokers=(1,))
    assert {step.target for step in drained.steps} == {(2, 3)}


@settings(max_examples=60, deadline=None)
@given(worlds(), st.data())
def test_who_is_in_trouble_gets_only_what_has_no_other_place_and_never_leads(
    one: World, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from([PlanKind.SPREAD, PlanKind.RACKS, PlanKind.FILL, PlanKind.DRAIN]))
    brokers = tuple(data.draw(st.sets(st.sampled_from(one.ids), min_size=1, max_size=2)))
    troubled = data.draw(st.sets(st.sampled_from(one.ids)))
    if kind is PlanKind.FILL:
        troubled -= set(brokers)
    one.brokers = [msgspec.structs.replace(b, in_trouble=b.broker_id in troubled) for b in one.brokers]
    proposal = one.plan(kind, brokers=brokers if kind in (PlanKind.FILL, PlanKind.DRAIN) else ())
    able = set(may_get(one)) - (set(brokers) if kind is PlanKind.DRAIN else set())
    sound = able - troubled
    one.after(proposal)
    for step in proposal.steps:
        new = set(step.target) - set(step.origin)
        if sound and new & troubled:
            assert kind is PlanKind.DRAIN
            assert sound <= set(step.target)
        if sound & set(step.target) and step.target[0] != step.origin[0]:
            assert step.target[0] not in troubled


def test_a_broker_in_trouble_is_filled_if_somebody_names_it() -> None:
    filled = world([(1,)] * 4, dict.fromkeys((1, 2, 3), ""), frozenset({3})).plan(PlanKind.FILL, brokers=(3,))
    assert 3 in {b for step in filled.steps for b in step.target}
