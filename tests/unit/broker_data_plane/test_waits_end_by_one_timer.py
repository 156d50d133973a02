"""Whoever waits too long is told in time, by one timer, and who has left costs no memory."""

import asyncio

from broker.deadlines import Deadlines


class Wait:
    """Somebody who waits; `told` is shared by all of a test, in the order in which they are told."""

    def __init__(self, deadlines: Deadlines, told: list["Wait"], *, is_broken: bool = False) -> None:
        self.is_waiting = True
        self.over = asyncio.Event()
        self._deadlines, self._told, self._is_broken = deadlines, told, is_broken

    def leave(self) -> None:
        self.is_waiting = False
        self._deadlines.leave()

    def time_is_over(self) -> None:
        self.leave()
        self._told.append(self)
        self.over.set()
        if self._is_broken:
            raise RuntimeError("a mistake of ours")


async def over(wait: Wait) -> None:
    async with asyncio.timeout(5.0):
        await wait.over.wait()


async def test_who_is_due_first_is_told_first_whoever_came_first() -> None:
    deadlines, told = Deadlines(), list[Wait]()
    late, soon, never = (Wait(deadlines, told) for _ in range(3))
    deadlines.enter(never, 60.0)
    deadlines.enter(late, 0.02)
    deadlines.enter(soon, 0.001)
    await over(late)
    assert told == [soon, late]


async def test_who_has_left_is_told_nothing() -> None:
    deadlines, told = Deadlines(), list[Wait]()
    gone, stays = Wait(deadlines, told), Wait(deadlines, told)
    deadlines.enter(gone, 0.001)
    deadlines.enter(stays, 0.01)
    gone.leave()
    await over(stays)
    assert told == [stays]


async def test_our_own_mistake_with_one_leaves_nobody_waiting() -> None:
    deadlines, told = Deadlines(), list[Wait]()
    broken, other = Wait(deadlines, told, is_broken=True), Wait(deadlines, told)
    deadlines.enter(broken, 0.001)
    deadlines.enter(other, 0.002)
    await over(other)
    assert told == [broken, other]


async def test_those_that_come_and_go_take_no_more_room_than_those_that_wait() -> None:
    deadlines, told = Deadlines(), list[Wait]()
    waiting = [Wait(deadlines, told) for _ in range(100)]
    for one in waiting:
        deadlines.enter(one, 60.0)
    for _ in range(10_000):
        quick = Wait(deadlines, told)
        deadlines.enter(quick, 60.0)
        quick.leave()
    assert len(deadlines) < 300
    for one in waiting:
        one.leave()
    assert len(deadlines) == 0
