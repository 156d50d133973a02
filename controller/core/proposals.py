"""This room computes plans: which partitions move where, so that as few move as possible, and what it costs.

A worker calls `propose` on the rows that it read; the turns that run the plan look at each row again.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Final
from uuid import UUID

import msgspec

from controller.core.balancing import World
from controller.core.placement import Place
from controller.core.plan_rows import PlanStep
from muster.messages.link.plans import PlanKind, PlanOptions
from muster.messages.link.rows import NO_LEADER

NAMES_SHOWN: Final = 5


class StoredBroker(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A registered broker as a worker reads it. Only one that is live and not cordoned gets new replicas.

    One in trouble (`placement.Place`) gets only what has no other place, and gives as any other.
    """

    broker_id: int
    rack: str
    live: bool
    cordoned: bool
    in_trouble: bool = False


class StoredPartition(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A partition as a worker reads it; `size_bytes` −1: nobody said. `moving`: a reassignment is active."""

    topic_id: UUID
    partition: int
    assigned: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    version: int
    size_bytes: int
    moving: bool


class DoneStep(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A step of the plan that is to be undone, as it was carried out."""

    topic_id: UUID
    partition: int
    origin: tuple[int, ...]
    target: tuple[int, ...]


class LeftOut(msgspec.Struct, frozen=True):
    """Partitions that the plan was for and does not move, and why; `names` are the first of them."""

    why: str
    number: int
    names: tuple[str, ...]


class Share(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one broker holds and stands first for, before and after, and the bytes that it takes and sends."""

    broker_id: int
    replicas_before: int
    replicas_after: int
    first_before: int
    first_after: int
    bytes_in: int
    bytes_out: int


class Cost(msgspec.Struct, frozen=True):
    """What a plan costs; partitions of unknown size count for no bytes."""

    partitions: int
    bytes: int
    replicas_added: int
    leaders_moved: int
    unknown_sizes: int
    """Partitions that are copied and of which no leader said how large they are."""
    busiest_bytes: int
    """The most that one broker sends, or that one takes: divided by the rate, how long it takes at least."""
    busiest_broker: int
    hours: float | None
    """At the plan's rate as it was proposed; None: no rate."""
    brokers: tuple[Share, ...]
    """Those for which something changes."""
    left_out: tuple[LeftOut, ...]


class Proposal(msgspec.Struct, frozen=True):
    """A computed plan, or why there is none."""

    steps: tuple[PlanStep, ...] = ()
    cost: Cost | None = None
    failure: str = ""


class Nothing(Exception):
    """There is nothing that the plan could do; the text says why."""


def propose(
    options: PlanOptions,
    throttle: int,
    brokers: Sequence[StoredBroker],
    topics: Mapping[UUID, str],
    partitions: Sequence[StoredPartition],
    undone: Sequence[DoneStep] = (),
) -> Proposal:
    """The steps of a plan in the order of asking, and its cost. `partitions` are all, in any order."""
    wanted = set(options.topics)
    left_out: dict[str, list[str]] = defaultdict(list)
    movable = []
    for place, one in enumerate(partitions):
        if one.topic_id in topics and (not wanted or topics[one.topic_id] in wanted):
            movable.append(place)
    world = World(_places(options, brokers), [one.assigned for one in partitions], _sizes(partitions))
    free = [place for place in movable if not partitions[place].moving]

    def name(place: int) -> str:
        return f"{topics[partitions[place].topic_id]}-{partitions[place].partition}"

    def leave_out(place: int, why: str) -> None:
        left_out[why].append(name(place))

    try:
        _compute(options, world, brokers, partitions, free, leave_out, topics, undone)
    except Nothing as nothing:
        return Proposal(failure=str(nothing))
    for place in movable:
        if partitions[place].moving and options.kind not in (PlanKind.EXPLICIT, PlanKind.UNDO):
            leave_out(place, "another reassignment moves it")
    told = tuple(
        LeftOut(why, len(names), tuple(names[:NAMES_SHOWN])) for why, names in sorted(left_out.items())
    )
    if not world.targets:
        because = "; ".join(f"{one.number} left out: {one.why} ({', '.join(one.names)})" for one in told)
        return Proposal(failure=f"There is nothing to move. {because}".strip())
    steps = tuple(
        PlanStep(
            number,
            partitions[place].topic_id,
            topics[partitions[place].topic_id],
            partitions[place].partition,
            partitions[place].version,
            partitions[place].assigned,
            world.targets[place],
            partitions[place].size_bytes,
        )
        for number, place in enumerate(_order(world, partitions))
    )
    return Proposal(steps, _cost(steps, world, partitions, throttle, told))


def _places(options: PlanOptions, brokers: Sequence[StoredBroker]) -> list[Place]:
    """Who may get replicas. Who is to be filled was named by somebody, in trouble or not."""
    named = set(options.brokers) if options.kind is PlanKind.FILL else set()
    left = set(options.brokers) if options.kind is PlanKind.DRAIN else set()
    return [
        Place(one.broker_id, one.rack, one.in_trouble and one.broker_id not in named)
        for one in brokers
        if one.live and one.broker_id not in left and not one.cordoned
    ]


def _sizes(partitions: Sequence[StoredPartition]) -> list[int]:
    return [max(0, one.size_bytes) for one in partitions]


LeaveOut = Callable[[int, str], None]


def _compute(
    options: PlanOptions,
    world: World,
    brokers: Sequence[StoredBroker],
    partitions: Sequence[StoredPartition],
    free: Sequence[int],
    leave_out: LeaveOut,
    topics: Mapping[UUID, str],
    undone: Sequence[DoneStep],
) -> None:
    """Give `world` its targets. Raises Nothing."""
    world.know_racks({one.broker_id: one.rack for one in brokers})
    match options.kind:
        case PlanKind.SPREAD:
            world.spread(free)
        case PlanKind.FILL:
            world.fill(free, set(options.brokers))
        case PlanKind.DRAIN:
            _drain(world, free, set(options.brokers), leave_out)
        case PlanKind.REPLICATION_FACTOR:
            _change_factor(world, partitions, free, options.replication_factor, leave_out)
        case PlanKind.RACKS:
            if len({one.rack for one in brokers}) < 2:
                raise Nothing("The brokers stand on one rack, or do not say on which.")
            _use_racks(world, partitions, free, leave_out)
        case PlanKind.EXPLICIT:
            _go_where_told(options, world, partitions, topics, leave_out)
        case PlanKind.UNDO:
            _undo(world, brokers, partitions, undone, leave_out)


# ---------------------------------------------------------------------------------- kinds


def _drain(world: World, free: Iterable[int], leavers: set[int], leave_out: LeaveOut) -> None:
    """Another broker in the place of each that leaves; who stands first is who stands first least often."""
    for place in free:
        before = world.now(place)
        if leavers.isdisjoint(before):
            continue
        target = list(before)
        for seat, broker_id in enumerate(before):
            if broker_id in leavers:
                others = [b for b in target if b != broker_id]
                new = world.place_for(others, target)
                if new is None:
                    leave_out(place, "no other broker may get it")
                    target = []
                    break
                target[seat] = new
        if target and before[0] in leavers:
            target = world.led_by_least(target, before)
        if target:
            world.put(place, target)


def _change_factor(
    world: World,
    partitions: Sequence[StoredPartition],
    free: Iterable[int],
    factor: int,
    leave_out: LeaveOut,
) -> None:
    """More replicas where least is held, one a rack; fewer: what is out of sync goes first."""
    for place in free:
        target = list(world.now(place))
        while 0 < len(target) < factor:
            new = world.place_for(target, target)
            if new is None:
                leave_out(place, "there are not enough brokers that may get it")
                target = []
            else:
                target.append(new)
        while len(target) > factor:
            target.remove(world.least_needed(target, partitions[place].isr))
        if target and tuple(target) != world.now(place):
            world.put(place, target)


def _use_racks(
    world: World, partitions: Sequence[StoredPartition], free: Iterable[int], leave_out: LeaveOut
) -> None:
    """While two replicas are on one rack and another rack has a broker for it, one goes there."""
    for place in free:
        target = list(world.now(place))
        while (twice := world.on_one_rack(target, partitions[place].isr)) is not None:
            others = [b for b in target if b != twice]
            new = world.place_for(others, target, strictly=True)
            if new is None:
                if len(world.racks) > len({world.rack(b) for b in target}):
                    leave_out(place, "no broker of another rack may get it")
                break
            target[target.index(twice)] = new
        if tuple(target) != world.now(place):
            world.put(place, target)


def _go_where_told(
    options: PlanOptions,
    world: World,
    partitions: Sequence[StoredPartition],
    topics: Mapping[UUID, str],
    leave_out: LeaveOut,
) -> None:
    wanted = {(one.topic, one.partition): one.replicas for one in options.partitions}
    for place, one in enumerate(partitions):
        target = wanted.get((topics.get(one.topic_id, ""), one.partition))
        if target is not None:
            _go(world, place, one, target, leave_out)


def _go(world: World, place: int, one: StoredPartition, target: tuple[int, ...], leave_out: LeaveOut) -> None:
    if one.moving:
        leave_out(place, "another reassignment moves it")
    elif target == one.assigned:
        leave_out(place, "it is there already")
    else:
        world.put(place, target)


def _undo(
    world: World,
    brokers: Sequence[StoredBroker],
    partitions: Sequence[StoredPartition],
    undone: Sequence[DoneStep],
    leave_out: LeaveOut,
) -> None:
    """Back to the origin, where the replicas still are those that the plan brought it. Raises Nothing."""
    if not undone:
        raise Nothing("That plan has moved nothing.")
    steps = {(one.topic_id, one.partition): one for one in undone}
    known = {one.broker_id for one in brokers}
    for place, one in enumerate(partitions):
        step = steps.get((one.topic_id, one.partition))
        if step is None:
            continue
        if set(one.assigned) != set(step.target):
            leave_out(place, "it was moved again since")
        elif not known.issuperset(step.origin):
            leave_out(place, "a broker that held it is no more")
        else:
            _go(world, place, one, step.origin, leave_out)


# ---------------------------------------------------------------------------------- order and cost


def _order(world: World, partitions: Sequence[StoredPartition]) -> list[int]:
    """What copies nothing first; then by turns to each broker, so that all take at a time."""
    queues: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, target in sorted(world.targets.items()):
        added = [b for b in target if b not in partitions[place].assigned]
        queues[tuple(added[:1])].append(place)
    at_once = queues.pop((), [])
    turns = chain.from_iterable(zip_longest(*(queues[key] for key in sorted(queues))))
    return at_once + [place for place in turns if place is not None]


def _cost(
    steps: Sequence[PlanStep],
    world: World,
    partitions: Sequence[StoredPartition],
    throttle: int,
    left_out: tuple[LeftOut, ...],
) -> Cost:
    before, after = Counter[int](), Counter[int]()
    first_before, first_after = Counter[int](), Counter[int]()
    came, went = Counter[int](), Counter[int]()
    added_count = leaders_moved = total = 0
    led_by = {place: partitions[place].leader for place in world.targets}
    for place, target in world.targets.items():
        one = partitions[place]
        size, leader = max(0, one.size_bytes), led_by[place]
        added = [b for b in target if b not in one.assigned]
        added_count += len(added)
        total += size * len(added)
        leaders_moved += leader != NO_LEADER and (leader not in target or target[0] != one.assigned[0])
        came.update(dict.fromkeys(added, size))
        went[leader if leader != NO_LEADER else one.assigned[0]] += size * len(added)
        after.update(set(target) - set(one.assigned))
        after.subtract(set(one.assigned) - set(target))
        if target[0] != one.assigned[0]:
            first_after[target[0]] += 1
            first_after[one.assigned[0]] -= 1
    concerned = {b for b, n in (*after.items(), *first_after.items(), *came.items(), *went.items()) if n}
    for one in partitions:
        first_before[one.assigned[0]] += 1
        before.update(one.assigned)
    shares = tuple(
        Share(
            b,
            before[b],
            before[b] + after[b],
            first_before[b],
            first_before[b] + first_after[b],
            came[b],
            went[b],
        )
        for b in sorted(concerned)
    )
    busiest = max(shares, key=lambda one: max(one.bytes_in, one.bytes_out), default=None)
    most = max(busiest.bytes_in, busiest.bytes_out) if busiest else 0
    return Cost(
        partitions=len(steps),
        bytes=total,
        replicas_added=added_count,
        leaders_moved=leaders_moved,
        unknown_sizes=sum(step.size_bytes < 0 and not set(step.target) <= set(step.origin) for step in steps),
        busiest_bytes=most,
        busiest_broker=busiest.broker_id if busiest and most else 0,
        hours=most / throttle / 3600 if throttle else None,
        brokers=shares,
        left_out=left_out,
    )
