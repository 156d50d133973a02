"""Faults follow from the seed alone; every kind has its turn, and what is promised can be kept meanwhile."""

from itertools import pairwise

import pytest

from tests.soak.plan import Event, Fault, plan

SEEDS = range(200)
LONG_S = 600.0
KINDS = (
    *((Fault.KILL, "node"), (Fault.PAUSE, "node"), (Fault.KILL, "worker"), (Fault.KILL, "broker")),
    *((Fault.FLUSH, "redis"), (Fault.RESTART, "redis"), (Fault.RESTART, "postgres")),
)


def test_the_same_seed_makes_the_same_plan() -> None:
    assert plan(7, LONG_S) == plan(7, LONG_S) != plan(8, LONG_S)


@pytest.mark.parametrize("lasts_s", [60.0, LONG_S])
def test_everybody_is_back_in_time(lasts_s: float) -> None:
    for seed in SEEDS:
        events = plan(seed, lasts_s)
        assert events == sorted(events, key=lambda event: event.at_s)
        assert all(event.at_s + event.for_s <= lasts_s for event in events)


def test_ten_minutes_see_each_kind_more_than_once() -> None:
    for seed in SEEDS:
        events = [(event.fault, event.target.partition("-")[0]) for event in plan(seed, LONG_S)]
        assert all(events.count(kind) >= 2 for kind in KINDS)


def test_no_two_brokers_are_away_together() -> None:
    for seed in SEEDS:
        away = [event for event in plan(seed, LONG_S) if event.target.startswith("broker")]
        assert not any(_overlap(one, other) for one, other in pairwise(away))


def _overlap(one: Event, other: Event) -> bool:
    return other.at_s < one.at_s + one.for_s
