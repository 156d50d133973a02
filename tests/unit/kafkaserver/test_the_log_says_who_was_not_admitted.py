"""Whoever gets no further than TLS or its proof is counted, and told in the log, without a secret."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from kafkaserver.guard import Guard
from kafkaserver.replies import Reply
from kafkaserver.server import KafkaServer
from kafkaserver.tls import Certificate
from muster.client.broker_connection import BrokerConnection, BrokerNotTrusted
from muster.client.securing import Security
from muster.kafkawire.api_table import ApiKey, RequestHeader
from tests.unit.kafkaserver.kafka_requests import frame
from tests.unit.kafkaserver.served import LIMITS, answer, request, until
from tests.unit.kafkaserver.test_a_door_behind_tls import FOLDER
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import TOKEN, row

WRONG = TOKEN[:-4] + "AAAA"


def _echo(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
    reply.send(answer(header.correlation_id))


@asynccontextmanager
async def door(*, sasl: bool = False, tls: bool = False) -> AsyncIterator[tuple[KafkaServer, int]]:
    guard = Guard(
        sasl=sasl, certificate=Certificate(FOLDER / "first.crt", FOLDER / "first.key") if tls else None
    )
    guard.know((row(),))
    server = KafkaServer(
        "clients", _echo, LIMITS, guard.gate if sasl else None, certificate=guard.certificate
    )
    port = server.listen("127.0.0.1", 0)
    try:
        yield server, port
    finally:
        await server.drain(grace_ms=0)


def shake_hands(port: int, authority: str) -> None:
    trusted = ssl.create_default_context(cafile=str(FOLDER / authority))
    with socket.create_connection(("127.0.0.1", port)) as plain:
        trusted.wrap_socket(plain, server_hostname="localhost").close()


def lines(said: list[Any]) -> list[Any]:
    return [line for line in said if line["event"] == "kafka_client_not_admitted"]


async def prove(port: int, mechanism: str, proof: bytes) -> None:
    """Say this as who one is, waiting for each answer, until the door hangs up."""
    messages = (
        frame(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism),
        frame(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=proof),
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(10):
            for message in messages:
                writer.write(len(message).to_bytes(4, "big") + message)
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            await reader.read()
    writer.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_wrong_token_is_told_with_whose_it_should_have_been(mechanism: str) -> None:
    async with door(sasl=True) as (server, port):
        with capture_logs() as said:
            plain = f"\0orders-app\0{WRONG}".encode()
            if mechanism == "PLAIN":
                await prove(port, mechanism, plain)
            else:
                with pytest.raises(BrokerNotTrusted):
                    await BrokerConnection.open(
                        f"127.0.0.1:{port}", "c", Security("SASL_PLAINTEXT", WRONG, mechanism)
                    )
        [line] = lines(said)
        assert "did not prove its token" in line["reason"]
        assert ("orders-app" in line["reason"] or "0a0b0c0d" in line["reason"]) and line["peer"].startswith(
            "127.0.0.1:"
        )
        assert (line["listener"], line["refused"], server.counters.unproved) == ("clients", 1, 1)
        assert WRONG not in str(said) and WRONG.rpartition("_")[2] not in str(said)


async def test_a_token_in_the_place_of_the_name_does_not_come_into_the_log() -> None:
    async with door(sasl=True) as (server, port):
        with capture_logs() as said:
            await prove(port, "PLAIN", f"\0{TOKEN}\0orders-app".encode())
        [line] = lines(said)
        assert "no living token of that name" in line["reason"]
        assert TOKEN.rpartition("_")[2] not in str(said)
        assert server.counters.unproved == 1


async def test_what_is_no_word_of_the_mechanism_is_told_as_that() -> None:
    async with door(sasl=True) as (_server, port):
        with capture_logs() as said:
            await prove(port, "SCRAM-SHA-256", b"hello")
        assert "not its mechanism's" in lines(said)[0]["reason"]


async def test_a_client_that_does_not_trust_the_certificate_is_told_by_its_own_word() -> None:
    async with door(tls=True) as (server, port):
        with capture_logs() as said:
            # Not by asyncio, which hangs up before OpenSSL has said why.
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.to_thread(shake_hands, port, "second.crt")
            await until(lambda: server.counters.without_tls == 1)
        [line] = lines(said)
        assert line["reason"].startswith("the client ended TLS: ") and "UNKNOWN_CA" in line["reason"]


async def test_a_client_that_speaks_in_the_clear_to_a_tls_door_is_told() -> None:
    async with door(tls=True) as (server, port):
        with capture_logs() as said:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(1))
            await until(lambda: server.counters.without_tls == 1)
            writer.close()
        [line] = lines(said)
        assert "not the TLS that is spoken here" in line["reason"]


async def test_a_client_that_speaks_tls_to_a_door_in_the_clear_is_told() -> None:
    async with door() as (server, port):
        with capture_logs() as said:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection("localhost", port, ssl=ssl.create_default_context())
            await until(lambda: server.counters.oversize == 1)
        [line] = [line for line in said if line["event"] == "kafka_frame_refused"]
        assert "TLS begins" in line["reason"]


async def test_who_hangs_up_in_the_middle_of_a_handshake_is_no_failure_of_tls() -> None:
    async with door(tls=True) as (server, port):
        with capture_logs() as said:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            await until(lambda: server.connection_count == 1)
            writer.close()
            await until(lambda: server.connection_count == 0)
        assert lines(said) == [] and server.counters.without_tls == 0


async def test_who_is_gone_while_it_is_answered_is_no_failure_of_tls() -> None:
    async with door(tls=True) as (server, _port):
        with capture_logs() as said:
            server.lost("127.0.0.1:1", _what_openssl_says_to_who_is_gone())
        assert lines(said) == [] and server.counters.without_tls == 0


def _what_openssl_says_to_who_is_gone() -> OSError:
    """Two ends of a pair agree on TLS; one goes, and the other writes on. Pythons word it each in its way."""
    ours, theirs = socket.socketpair()
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(FOLDER / "first.crt", FOLDER / "first.key")
    trusted = ssl.create_default_context(cafile=str(FOLDER / "first.crt"))
    with ThreadPoolExecutor(1) as other, ours, theirs:
        client = other.submit(trusted.wrap_socket, theirs, server_hostname="localhost")
        with served.wrap_socket(ours, server_side=True) as answering:
            client.result().close()
            with pytest.raises((ssl.SSLEOFError, BrokenPipeError)) as gone:
                for _ in range(2):
                    answering.send(b"answer")
    return gone.value


async def test_strangers_write_a_line_a_second_at_most() -> None:
    async with door(sasl=True) as (server, port):
        began = server.loop.time()
        with capture_logs() as said:
            for _ in range(20):
                await prove(port, "PLAIN", b"\0orders-app\0x")
        seconds = server.loop.time() - began
        assert server.counters.unproved == 20 and len(lines(said)) <= 1 + seconds
