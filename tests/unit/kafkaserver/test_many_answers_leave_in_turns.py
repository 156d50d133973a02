"""When thousands are told together, whoever else speaks is heard in between, and everybody is told once."""

import asyncio
from typing import cast

from kafkaserver.server import SEND_AT_ONCE_S, KafkaServer
from kafkaserver.sockets import Connection
from tests.unit.kafkaserver.served import until

MANY = 12


class Slow:
    """A connection whose socket takes its answers slowly."""

    def __init__(self, told: list[object]) -> None:
        self._told = told

    def flush(self) -> None:
        loop = asyncio.get_running_loop()
        over = loop.time() + SEND_AT_ONCE_S / 2
        while loop.time() < over:
            pass
        self._told.append(self)


async def test_others_have_their_turn_between_the_answers() -> None:
    told: list[object] = []
    heard_after: list[int] = []
    server = KafkaServer("test", lambda *_: None)
    server.loop = asyncio.get_running_loop()
    slow = [Slow(told) for _ in range(MANY)]
    for one in slow:
        server.flush_soon(cast(Connection, one))
    server.loop.call_soon(lambda: heard_after.append(len(told)))
    await until(lambda: len(told) == MANY)
    assert set(told) == set(slow)
    assert 0 < heard_after[0] < MANY


async def test_who_has_more_to_say_meanwhile_is_sent_that_too() -> None:
    told: list[object] = []
    server = KafkaServer("test", lambda *_: None)
    server.loop = asyncio.get_running_loop()
    slow = [Slow(told) for _ in range(MANY)]
    for one in slow:
        server.flush_soon(cast(Connection, one))

    def more_for_all() -> None:
        for one in slow:
            server.flush_soon(cast(Connection, one))

    server.loop.call_soon(more_for_all)
    await until(lambda: set(told[-MANY:]) == set(slow) and len(told) > MANY)
