"""This room places new partitions: leaders spread evenly, replicas on different racks if possible."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """A broker that may hold replicas; rack "" is a rack of its own kind.

    `in_trouble`: its disk is full, or it has logs that it can neither read nor write. `is_away`: it is dead,
    or about to stop.
    """

    broker_id: int
    rack: str = ""
    in_trouble: bool = False
    is_away: bool = False


def place(
    places: Sequence[Place],
    partition_count: int,
    replication_factor: int,
    led_already: Iterable[int] = (),
) -> list[tuple[int, ...]]:
    """Assignments of partitions 0 to `partition_count` − 1, the preferred leader first.

    Nothing comes to a broker in trouble while others are enough, nor to one that is away while those in
    trouble are; where they are not, all of them hold each partition and stand first for it by turns.
    `led_already` names the preferred leader of each existing partition. Needs `replication_factor` places,
    and one that is not away.
    """
    led = Counter(led_already)
    here = [one for one in places if not one.is_away]
    sound = [one for one in here if not one.in_trouble]
    troubled = [one for one in here if one.in_trouble]
    away = [one for one in places if one.is_away]
    chosen, *others = [level for level in (sound, troubled, away) if level]
    if len(chosen) >= replication_factor:
        return _in_a_ring(chosen, partition_count, replication_factor, led)
    assignments = _in_a_ring(chosen, partition_count, len(chosen), led)
    racks = {one.broker_id: one.rack for one in places}
    for level in others:
        ring, lacking = _striped(level), replication_factor - len(assignments[0])
        # Nobody begins with the same one for each topic of one partition.
        assignments = [
            one + _apart(_turned(ring, at), lacking, {racks[broker_id] for broker_id in one})
            for at, one in enumerate(assignments, start=led.total())
        ]
    return assignments


def _in_a_ring(
    places: Sequence[Place], partition_count: int, replication_factor: int, led: Mapping[int, int]
) -> list[tuple[int, ...]]:
    """Replicas for each partition, whoever is in trouble.

    Brokers are laid out so that neighbours are on different racks; each partition takes the next one as
    its leader, beginning with the one that leads least. Followers come from behind the leader, one step
    further in each round, so that the loss of one broker spreads over all others.
    """
    ring = _striped(places)
    start = _least_leading(ring, led)
    assignments = []
    for number in range(partition_count):
        at = (start + number) % len(ring)
        round_number = number // len(ring)
        assignments.append(_replicas(ring, at, round_number, replication_factor))
    return assignments


def _striped(places: Sequence[Place]) -> list[Place]:
    """By turns one broker of each rack, the larger racks last to run out."""
    racks: dict[str, list[Place]] = {}
    for one in sorted(places):
        racks.setdefault(one.rack, []).append(one)
    ordered = [racks[name] for name in sorted(racks)]
    longest = max((len(rack) for rack in ordered), default=0)
    return [rack[i] for i in range(longest) for rack in ordered if i < len(rack)]


def _least_leading(ring: Sequence[Place], led: Mapping[int, int]) -> int:
    return min(range(len(ring)), key=lambda at: (led.get(ring[at].broker_id, 0), at))


def _replicas(ring: Sequence[Place], at: int, round_number: int, count: int) -> tuple[int, ...]:
    leader = ring[at]
    others = len(ring) - 1
    behind = [ring[(at + 1 + (round_number + step) % others) % len(ring)] for step in range(others)]
    return leader.broker_id, *_apart(behind, count - 1, {leader.rack})


def _turned(ring: Sequence[Place], at: int) -> Sequence[Place]:
    return [*ring[at % len(ring) :], *ring[: at % len(ring)]]


def _apart(ring: Sequence[Place], count: int, racks: Collection[str]) -> tuple[int, ...]:
    """The first so many of them, rather on racks other than these and each other's."""
    chosen: list[Place] = []
    used = set(racks)
    for one in ring:
        if len(chosen) < count and one.rack not in used:
            chosen.append(one)
            used.add(one.rack)
    for one in ring:
        if len(chosen) < count and one not in chosen:
            chosen.append(one)
    return tuple(one.broker_id for one in chosen)
