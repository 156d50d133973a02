"""Bodies that strangers send slowly hold so much together and no more; the oldest makes room."""

import asyncio
from typing import Any

import pytest

from web.bodies import Bodies, Crowded, TooLarge

SCOPE: dict[str, Any] = {"headers": []}


class Sender:
    """Somebody who sends parts when he is told to."""

    def __init__(self) -> None:
        self._parts: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def receive(self) -> dict[str, Any]:
        return await self._parts.get()

    def sends(self, body: bytes, more: bool = True) -> None:
        self._parts.put_nowait({"type": "http.request", "body": body, "more_body": more})


async def test_the_oldest_makes_room_and_the_others_are_read() -> None:
    bodies, senders = Bodies(most_bytes=250), [Sender() for _ in range(4)]
    reading = [asyncio.create_task(bodies.read(SCOPE, one.receive, 1_000)) for one in senders]
    # The first has sent nothing yet: it holds nothing.
    for one in senders[1:]:
        one.sends(bytes(100))
    async with asyncio.timeout(10):
        with pytest.raises(Crowded):
            await reading[1]
        for number in (0, 2, 3):
            senders[number].sends(b"end", more=False)
        assert [len(await reading[number]) for number in (0, 2, 3)] == [3, 103, 103]


async def test_what_was_read_or_refused_holds_nothing() -> None:
    bodies = Bodies(most_bytes=250)
    async with asyncio.timeout(10):
        for _ in range(20):
            sender = Sender()
            sender.sends(bytes(200), more=False)
            assert len(await bodies.read(SCOPE, sender.receive, 200)) == 200
            sender.sends(bytes(201))
            with pytest.raises(TooLarge):
                await bodies.read(SCOPE, sender.receive, 200)
        waiting, late = Sender(), Sender()
        reading = asyncio.create_task(bodies.read(SCOPE, waiting.receive, 200))
        waiting.sends(bytes(100))
        late.sends(bytes(149), more=False)
        await bodies.read(SCOPE, late.receive, 200)
        waiting.sends(b"", more=False)
        assert len(await reading) == 100


async def test_one_whose_time_is_over_at_that_moment_harms_nobody() -> None:
    bodies, slow, other = Bodies(most_bytes=250), Sender(), Sender()
    reading = [asyncio.create_task(bodies.read(SCOPE, one.receive, 1_000)) for one in (slow, other)]
    slow.sends(bytes(200))
    async with asyncio.timeout(10):
        while not any(bodies._held.values()):
            await asyncio.sleep(0)
        # It is over in this round of the loop, in which the other's part comes; it hears that in the next.
        next(iter(bodies._held)).reschedule(0.0)
        other.sends(bytes(100), more=False)
        assert len(await reading[1]) == 100
        with pytest.raises(Crowded):
            await reading[0]


async def test_one_alone_may_have_all_of_it() -> None:
    sender = Sender()
    sender.sends(bytes(300))
    sender.sends(b"", more=False)
    assert len(await Bodies(most_bytes=250).read(SCOPE, sender.receive, 1_000)) == 300
