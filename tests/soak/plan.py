"""This room says which faults a soak meets, and when: all of it follows from a seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Fault(StrEnum):
    """What is done to whom."""

    FLUSH = "FLUSHALL of"
    RESTART = "restart of"
    KILL = "kill -9 of"
    PAUSE = "SIGSTOP of"


@dataclass(frozen=True, slots=True)
class Event:
    """One fault: seconds from the first one's possible moment, whom it hits, how long he is away."""

    at_s: float
    fault: Fault
    target: str
    for_s: float = 0.0

    def __str__(self) -> str:
        away = f" for {self.for_s:.0f} s" if self.for_s else ""
        return f"{self.fault} {self.target}{away}"


SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 15.0
"""Some are shorter than a lease (5 s), some longer: the node wakes up without its shards."""

REST_S = (4.0, 12.0)
"""Between the end of one fault and the next; now and then two come together."""

TOGETHER = 0.2


def plan(seed: int, lasts_s: float, nodes: int = 2, brokers: int = 3, workers: int = 2) -> Sequence[Event]:
    """The faults of so many seconds, in their order; the last has ended by then.

    Every kind comes in its turn, in an order of the seed's own, before any comes twice. Two brokers are never
    away together: min.insync.replicas is 2, and nothing could be written that a soak must then see.
    """
    dice = Random(seed)
    events: list[Event] = []
    at_s, bag = dice.uniform(*REST_S), list[Event]()
    while True:
        bag = bag or _all_kinds(dice, nodes, brokers, workers)
        made = bag.pop()
        event = Event(round(at_s, 1), made.fault, made.target, made.for_s)
        if event.at_s + event.for_s > lasts_s:
            return events
        events.append(event)
        together = dice.random() < TOGETHER and not _is_of(event, "broker")
        at_s += dice.uniform(0.2, 2.0) if together else event.for_s + dice.uniform(*REST_S)


def _all_kinds(dice: Random, nodes: int, brokers: int, workers: int) -> list[Event]:
    """One of each, for somebody."""
    node, other = (f"node-{dice.randint(1, nodes)}" for _ in range(2))
    worker, broker = f"worker-{dice.randint(1, workers)}", f"broker-{dice.randint(1, brokers)}"
    kinds = [
        Event(0, Fault.KILL, node, dice.uniform(1, 8)),
        Event(0, Fault.PAUSE, other, dice.uniform(SHORTEST_PAUSE_S, LONGEST_PAUSE_S)),
        Event(0, Fault.KILL, worker, dice.uniform(1, 5)),
        Event(0, Fault.KILL, broker, dice.uniform(1, 8)),
        Event(0, Fault.FLUSH, "redis"),
        Event(0, Fault.RESTART, "redis", dice.uniform(0, 3)),
        Event(0, Fault.RESTART, "postgres", dice.uniform(0, 3)),
    ]
    dice.shuffle(kinds)
    return kinds


def _is_of(event: Event, role: str) -> bool:
    return event.target.startswith(role)
