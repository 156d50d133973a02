"""What all brokers are told at once holds the loop no longer than what one of them is told."""

import asyncio
from typing import Any

from controller.links import LARGE_BYTES, BrokerLink
from muster.messages.link.to_broker import NotController

LARGE = NotController(controller_address="a" * LARGE_BYTES)
SMALL = NotController(controller_address="ws://one")


async def sent_in_rounds(frames: list[NotController]) -> list[int]:
    """In which rounds of the loop each of as many links sends its one frame, in order."""
    rounds, sent = [0], list[int]()

    async def send(message: Any) -> None:
        sent.append(rounds[0])

    links = [BrokerLink(number, "127.0.0.1:1") for number in range(len(frames))]
    writers = [asyncio.create_task(link.write(send)) for link in links]
    await asyncio.sleep(0)
    for link, frame in zip(links, frames, strict=True):
        link.say(frame)
    while len(sent) < len(frames):
        rounds[0] += 1
        await asyncio.sleep(0)
    for link in links:
        link.hang_up("the end")
    await asyncio.gather(*writers)
    return sent


async def test_all_else_has_its_turn_between_two_large_ones() -> None:
    assert len(set(await sent_in_rounds([LARGE] * 10))) == 10
    assert len(set(await sent_in_rounds([SMALL] * 10))) == 1


async def test_who_goes_meanwhile_keeps_nobody_waiting() -> None:
    sent = []

    async def send(message: Any) -> None:
        sent.append(message)

    links = [BrokerLink(number, "127.0.0.1:1") for number in range(10)]
    writers = [asyncio.create_task(link.write(send)) for link in links]
    for link in links:
        link.say(LARGE)
    await asyncio.sleep(0)
    for writer in writers[2:8]:
        writer.cancel()
    for link in links:
        link.hang_up("the end")
    await asyncio.gather(*writers, return_exceptions=True)
    assert len(sent) == 4
