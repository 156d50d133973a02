"""A door behind TLS serves what a plain one serves: frames in pieces, many at once, regions of files."""

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkaserver.outbox import FileRegion
from kafkaserver.replies import Handler, Reply
from kafkaserver.server import KafkaServer
from kafkaserver.tls import Certificate
from muster.kafkawire.api_table import RequestHeader
from tests.unit.kafkaserver.served import LIMITS, answer, request

FOLDER = Path(__file__).parent / "certificates"


@asynccontextmanager
async def tls_door(handler: Handler, certificate: Certificate) -> AsyncIterator[int]:
    server = KafkaServer("test", handler, LIMITS, certificate=certificate)
    port = server.listen("127.0.0.1", 0)
    try:
        yield port
    finally:
        await server.drain(grace_ms=0)


@asynccontextmanager
async def client(
    port: int, name: str = "first"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    context = ssl.create_default_context(cafile=str(FOLDER / f"{name}.crt"))
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
        try:
            yield reader, writer
        finally:
            writer.close()


def echo(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    reply.send(answer(header.correlation_id, bytes(frame[header.body_start :])))


@pytest.fixture
def certificate() -> Certificate:
    return Certificate(FOLDER / "first.crt", FOLDER / "first.key")


async def test_requests_are_answered_in_order(certificate: Certificate) -> None:
    async with tls_door(echo, certificate) as port, client(port) as (reader, writer):
        writer.write(b"".join(request(number, b"x" * number) for number in range(200)))
        for number in range(200):
            expected = answer(number, b"x" * number)
            assert await reader.readexactly(len(expected)) == expected


async def test_a_frame_larger_than_a_record_of_tls(certificate: Certificate) -> None:
    body = os.urandom(60_000)
    async with tls_door(echo, certificate) as port, client(port) as (reader, writer):
        for number in range(3):
            writer.write(request(number, body))
        for number in range(3):
            expected = answer(number, body)
            assert await reader.readexactly(len(expected)) == expected


async def test_more_than_the_shared_buffer_in_one_flight(certificate: Certificate) -> None:
    body = b"y" * 30_000
    async with tls_door(echo, certificate) as port, client(port) as (reader, writer):
        count = 40
        writer.write(b"".join(request(number, body) for number in range(count)))
        for number in range(count):
            expected = answer(number, body)
            assert await reader.readexactly(len(expected)) == expected


async def test_regions_of_files_arrive_whole_at_a_slow_reader(
    certificate: Certificate, tmp_path: Path
) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "log").write_bytes(content)
    with (tmp_path / "log").open("rb") as log:

        def serve(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
            head = struct.pack(">ii", 4 + len(content), header.correlation_id)
            reply.send(head, FileRegion(log, 0, len(content)))

        async with tls_door(serve, certificate) as port, client(port) as (reader, writer):
            writer.write(request(1))
            await reader.readexactly(8)
            received = b""
            while len(received) < len(content):
                received += await reader.read(10_000)
                await asyncio.sleep(0)
            assert received == content


async def test_who_speaks_in_the_clear_is_cut_off(certificate: Certificate) -> None:
    async with tls_door(echo, certificate) as port, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(1))
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            # A TLS alert may come first.
            heard = await reader.read()
        assert answer(1) not in heard
        writer.close()


async def test_a_new_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    chain, key = tmp_path / "chain.crt", tmp_path / "chain.key"

    def put(name: str) -> None:
        shutil.copy(FOLDER / f"{name}.crt", chain)
        shutil.copy(FOLDER / f"{name}.key", key)

    put("first")
    certificate = Certificate(chain, key)
    async with tls_door(echo, certificate) as port:
        async with client(port, "first") as (reader, writer):
            writer.write(request(1))
            await reader.readexactly(len(answer(1)))
        put("second")
        async with client(port, "second") as (reader, writer):
            writer.write(request(2))
            await reader.readexactly(len(answer(2)))


async def test_a_broken_certificate_leaves_the_old_one(tmp_path: Path) -> None:
    chain, key = tmp_path / "chain.crt", tmp_path / "chain.key"
    shutil.copy(FOLDER / "first.crt", chain)
    shutil.copy(FOLDER / "first.key", key)
    certificate = Certificate(chain, key)
    async with tls_door(echo, certificate) as port:
        chain.write_text("no certificate")
        async with client(port, "first") as (reader, writer):
            writer.write(request(1))
            assert await reader.readexactly(len(answer(1))) == answer(1)


async def test_what_is_wrong_is_said_once_and_names_both_files(tmp_path: Path) -> None:
    chain, key = tmp_path / "chain.crt", tmp_path / "chain.key"
    shutil.copy(FOLDER / "first.crt", chain)
    shutil.copy(FOLDER / "first.key", key)
    async with tls_door(echo, Certificate(chain, key)) as port:
        with capture_logs() as logs:
            for spoil in (key.unlink, lambda: key.write_text("no key"), key.unlink):
                spoil()
                for _ in range(3):
                    async with client(port, "first") as (reader, writer):
                        writer.write(request(1))
                        assert await reader.readexactly(len(answer(1))) == answer(1)
        told = [one for one in logs if one["event"] == "certificate_not_read"]
        assert ["No such file" in one["reason"] for one in told] == [True, False, True]
        assert {(one["file"], one["key"]) for one in told} == {(str(chain), str(key))}


async def test_a_pair_is_read_again_that_was_mended_without_a_new_time(tmp_path: Path) -> None:
    """As where its owner or its rights were wrong: nothing in it changes then, nor when it was written."""
    chain, key = tmp_path / "chain.crt", tmp_path / "chain.key"
    shutil.copy(FOLDER / "first.crt", chain)
    shutil.copy(FOLDER / "first.key", key)
    async with tls_door(echo, Certificate(chain, key)) as port:
        right = (FOLDER / "second.key").read_bytes()
        shutil.copy(FOLDER / "second.crt", chain)
        key.write_bytes(right.translate(bytes.maketrans(b"M", b"!")))
        written_at = key.stat()
        async with client(port, "first") as (reader, writer):
            writer.write(request(1))
            assert await reader.readexactly(len(answer(1))) == answer(1)
        key.write_bytes(right)
        os.utime(key, ns=(written_at.st_atime_ns, written_at.st_mtime_ns))
        async with client(port, "second") as (reader, writer):
            writer.write(request(2))
            assert await reader.readexactly(len(answer(2))) == answer(2)


async def test_half_of_a_new_pair_leaves_the_old_one(tmp_path: Path) -> None:
    chain, key = tmp_path / "chain.crt", tmp_path / "chain.key"
    shutil.copy(FOLDER / "first.crt", chain)
    shutil.copy(FOLDER / "first.key", key)
    certificate = Certificate(chain, key)
    async with tls_door(echo, certificate) as port:
        shutil.copy(FOLDER / "second.crt", chain)
        async with client(port, "first") as (reader, writer):
            writer.write(request(1))
            assert await reader.readexactly(len(answer(1))) == answer(1)
        shutil.copy(FOLDER / "second.key", key)
        async with client(port, "second") as (reader, writer):
            writer.write(request(2))
            assert await reader.readexactly(len(answer(2))) == answer(2)


async def test_who_resets_before_it_is_accepted_harms_nobody(certificate: Certificate) -> None:
    mistakes: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: mistakes.append(context))
    async with tls_door(echo, certificate) as port:
        # Nothing is accepted before this coroutine waits.
        for said in (b"", b"hello"):
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.sendall(said)
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        async with client(port) as (reader, writer):
            writer.write(request(1))
            assert await reader.readexactly(len(answer(1))) == answer(1)
    assert mistakes == []
