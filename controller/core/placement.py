"""This room places new partitions: leaders spread evenly, replicas on different racks if possible."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """A broker that may hold replicas; rack "" is a rack of its own kind."""

    broker_id: int
    rack: str = ""


def place(
    places: Sequence[Place],
    partition_count: int,
    replication_factor: int,
    led_already: Iterable[int] = (),
) -> list[tuple[int, ...]]:
    """Assignments of partitions 0 to `partition_count` − 1, the preferred leader first.

    Brokers are laid out so that neighbours are on different racks; each partition takes the next one as
    its leader, beginning with the one that leads least (`led_already` names the preferred leader of each
    existing partition). Followers come from behind the leader, one step further in each round, so that
    the loss of one broker spreads over all others. Needs `replication_factor` places.
    """
    ring = _striped(places)
    start = _least_leading(ring, led_already)
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


def _least_leading(ring: Sequence[Place], led_already: Iterable[int]) -> int:
    led = Counter(led_already)
    return min(range(len(ring)), key=lambda at: (led[ring[at].broker_id], at))


def _replicas(ring: Sequence[Place], at: int, round_number: int, count: int) -> tuple[int, ...]:
    leader = ring[at]
    others = len(ring) - 1
    behind = [ring[(at + 1 + (round_number + step) % others) % len(ring)] for step in range(others)]
    chosen, racks = [leader], {leader.rack}
    for one in behind:
        if len(chosen) < count and one.rack not in racks:
            chosen.append(one)
            racks.add(one.rack)
    for one in behind:
        if len(chosen) < count and one not in chosen:
            chosen.append(one)
    return tuple(one.broker_id for one in chosen)
