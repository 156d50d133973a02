"""Whoever waits for memory gets it in the order of asking, and whoever leaves costs the others nothing."""

import sys
import time
from types import FrameType

from kafkaserver.request_memory import RequestMemory

LIMIT = 100


def crowded(waiting: int) -> tuple[RequestMemory[str], list[str]]:
    """All of it is held by one, who has no turn; one has the turn, and so many wait behind."""
    woken: list[str] = []
    memory = RequestMemory[str](LIMIT, woken.append)
    assert memory.take("holder", LIMIT)
    for number in range(waiting + 1):
        assert not memory.take(f"waiter {number}", 10)
    assert woken == ["waiter 0"], "one goes beyond the limit"
    return memory, woken


def test_who_waits_gets_memory_in_the_order_of_asking() -> None:
    memory, woken = crowded(waiting=3)
    memory.leave("waiter 2")
    memory.give_back(40)
    assert woken == ["waiter 0", "waiter 1", "waiter 3"]


def test_who_had_the_turn_and_leaves_gives_it_to_the_next() -> None:
    memory, woken = crowded(waiting=2)
    memory.leave(woken[0])
    assert woken == ["waiter 0", "waiter 1"] and memory.has_turn(woken[1])


def test_who_leaves_looks_at_none_of_those_who_wait() -> None:
    """Thousands that go at once would look at thousands each."""
    memory, _ = crowded(waiting=500)
    calls: list[str] = []

    def noted(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(noted)
    try:
        memory.leave("waiter 250")
    finally:
        sys.setprofile(before)
    assert len(calls) < 10


def cost_of_serving(waiting: int) -> float:
    """CPU seconds in which all that wait get what they asked for."""
    memory = RequestMemory[int](10 * waiting, lambda who: None)
    memory.hold(10 * waiting)
    for number in range(waiting + 1):
        memory.take(number, 10)
    began = time.thread_time()
    memory.give_back(10 * waiting)
    return time.thread_time() - began


def test_ten_times_as_many_are_served_in_about_ten_times_as_long() -> None:
    """Not a hundred times: ten thousand that wait held the loop for a fifth of a second."""
    few, many = (min(cost_of_serving(waiting) for _ in range(3)) for waiting in (2_000, 20_000))
    assert many < 40 * few
