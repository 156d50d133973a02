"""Regions of files go out between bytes, in order, also through a socket that takes little at a time."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from kafkaserver.outbox import FileEnded, FileRegion, Outbox
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader
from tests.unit.kafkaserver.served import answer, request, served


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    path.write_bytes(os.urandom(3_000_000))
    return path


async def test_a_large_region_arrives_whole_though_the_client_reads_slowly(log_file: Path) -> None:
    content = log_file.read_bytes()
    with open(log_file, "rb") as file:

        def serve(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
            reply.send(
                b"head", FileRegion(file, 1_000, 2_000_000), b"middle", FileRegion(file, 0, 10), b"tail"
            )

        async with served(serve) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4_096)
            writer.write(request(1) + request(2))
            whole = b"head" + content[1_000:2_001_000] + b"middle" + content[:10] + b"tail"
            assert await reader.readexactly(len(whole)) == whole
            assert await reader.readexactly(len(whole)) == whole
            writer.close()


def test_what_is_put_leaves_in_order_through_a_narrow_socket(log_file: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, open(log_file, "rb") as file:
        ours.setblocking(False)
        theirs.setblocking(False)
        outbox = Outbox()
        outbox.put([b"a" * 100_000, b"b", FileRegion(file, 5, 500_000), memoryview(b"c" * 300_000)])
        assert outbox.waiting_bytes == 900_001
        received = bytearray()
        while not outbox.send_to(ours) or outbox.waiting_bytes:
            received += theirs.recv(65_536)
        while len(received) < 900_001:
            received += theirs.recv(65_536)
        assert received == b"a" * 100_000 + b"b" + log_file.read_bytes()[5:500_005] + b"c" * 300_000
        assert outbox.waiting_bytes == outbox.in_memory_bytes == 0


def test_a_file_that_was_cut_is_told_instead_of_padded(log_file: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, open(log_file, "rb") as file:
        os.truncate(log_file, 100)
        outbox = Outbox()
        outbox.put([FileRegion(file, 50, 100)])
        with pytest.raises(FileEnded):
            outbox.send_to(ours)


async def test_a_cut_file_closes_the_connection_because_its_length_was_promised(log_file: Path) -> None:
    with open(log_file, "rb") as file:

        def serve(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
            os.truncate(log_file, 100)
            reply.send(answer(1), FileRegion(file, 0, 1_000))

        async with served(serve) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(1))
            assert len(await reader.read()) <= 108
            assert server.counters.failed == 1
            writer.close()
