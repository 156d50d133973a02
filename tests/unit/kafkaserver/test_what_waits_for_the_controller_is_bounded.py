"""Requests that wait for an answer from elsewhere hold memory: of one connection, and of a door in all."""

import asyncio

from kafkaserver.later import BYTES_PER_ELEMENT, Later
from kafkaserver.limits import ServerLimits
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader
from tests.unit.kafkaserver.served import answer, request, served, until

SIZE_BYTES = 64 * 1024
BODY = bytes(SIZE_BYTES)


class Door:
    """Every request waits until it is let go."""

    def __init__(self, most_waiting_bytes: int) -> None:
        self.later = Later(most_waiting_bytes)
        self.may_go = asyncio.Event()
        self.waiting = 0

    def handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        self.later.start(reply, self._answer(header, reply), size_bytes=len(frame))

    async def _answer(self, header: RequestHeader, reply: Reply) -> None:
        self.waiting += 1
        await self.may_go.wait()
        self.waiting -= 1
        reply.send(answer(header.correlation_id))


async def test_a_connection_whose_requests_are_large_is_read_no_further() -> None:
    door = Door(1 << 30)
    limits = ServerLimits(parked_elements=3 * SIZE_BYTES // BYTES_PER_ELEMENT - 1)
    async with served(door.handle, limits) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(request(number, BODY) for number in range(8)))
        await until(lambda: door.waiting == 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert door.waiting == 3
        door.may_go.set()
        wanted = b"".join(answer(number) for number in range(8))
        assert await reader.readexactly(len(wanted)) == wanted
        writer.close()
        await writer.wait_closed()


async def test_who_asks_more_than_a_door_keeps_waiting_is_hung_up_on() -> None:
    door = Door(3 * SIZE_BYTES)
    async with served(door.handle, ServerLimits()) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(request(number, BODY) for number in range(2)))
        await until(lambda: door.waiting == 2)
        greedy_reader, greedy = await asyncio.open_connection("127.0.0.1", port)
        greedy.write(request(7, BODY))
        assert await greedy_reader.read() == b""
        # What others wait for is answered, and what they held is free again.
        door.may_go.set()
        assert await reader.readexactly(16) == answer(0) + answer(1)
        writer.write(request(2, BODY) + request(3, BODY))
        assert await reader.readexactly(16) == answer(2) + answer(3)
        for one in (writer, greedy):
            one.close()
            await one.wait_closed()


async def test_one_request_may_be_larger_than_all_that_may_wait() -> None:
    """Else it could never be asked."""
    door = Door(1)
    door.may_go.set()
    async with served(door.handle, ServerLimits()) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(1, BODY))
        assert await reader.readexactly(8) == answer(1)
        writer.close()
        await writer.wait_closed()
