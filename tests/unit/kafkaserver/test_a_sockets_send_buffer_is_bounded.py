"""What a socket takes of a large answer is bounded, so that its reader is not woken for each piece of it."""

import asyncio
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from kafkaserver.limits import ServerLimits
from kafkaserver.outbox import FileRegion
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader
from tests.unit.kafkaserver.served import LIMITS, request, served

LARGE_BYTES = 64 * 1024 * 1024


async def _taken_from(path: Path, send_buffer_bytes: int) -> int:
    """How much of a large file left while its reader read nothing, and its own buffer is small."""
    with open(path, "rb") as file:
        sent = asyncio.get_running_loop().create_future()
        region = FileRegion(file, 0, LARGE_BYTES)

        def serve(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
            reply.send(region)
            asyncio.get_running_loop().call_soon(sent.set_result, None)

        async with served(serve, replace(LIMITS, send_buffer_bytes=send_buffer_bytes)) as (_, port):
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                client.connect(("127.0.0.1", port))
                client.sendall(request(1))
                await sent
                return LARGE_BYTES - region.size_bytes


@pytest.mark.parametrize("send_buffer_bytes", [64 * 1024, ServerLimits().send_buffer_bytes])
async def test_no_more_leaves_than_the_buffer_holds(tmp_path: Path, send_buffer_bytes: int) -> None:
    path = tmp_path / "0.log"
    path.touch()
    os.truncate(path, LARGE_BYTES)
    # The system holds twice what it is told, for what it needs itself, and the reader's own buffer some more.
    assert 0 < await _taken_from(path, send_buffer_bytes) < 3 * send_buffer_bytes


async def test_the_system_may_decide(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.touch()
    os.truncate(path, LARGE_BYTES)
    assert await _taken_from(path, 0) > await _taken_from(path, 64 * 1024)
