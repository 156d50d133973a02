"""The SDK proves its token to a broker that asks for it, over TLS that it has checked, or not at all."""

import asyncio
import base64
import contextlib
import hashlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kafkaserver.cluster_answers import answer_api_versions
from kafkaserver.guard import Guard
from kafkaserver.replies import Reply
from kafkaserver.server import KafkaServer
from kafkaserver.tls import Certificate
from muster import OffsetsUnknown
from muster.client.broker_connection import BrokerConnection, BrokerNotTrusted, BrokerUnavailable, Question
from muster.client.securing import Security
from muster.kafkawire.api_table import ApiKey, RequestHeader, build, request_class
from muster.kernel.scram import HASHES, verifier_of
from muster.kernel.security_protocols import PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL
from muster.messages.link.callers import CallerRow, ScramRow
from tests.unit.client.stage import places, staged, take

CERTIFICATES = Path(__file__).parents[1] / "kafkaserver" / "certificates"
SECRET = bytes(range(32))
TOKEN = f"mst_0a0b0c0d_{base64.urlsafe_b64encode(SECRET).rstrip(b'=').decode()}"
VERSIONS = Question(
    ApiKey.API_VERSIONS,
    3,
    build(request_class(ApiKey.API_VERSIONS, 3), client_software_name="sdk", client_software_version="1"),
)


def row() -> CallerRow:
    scram = []
    for mechanism in HASHES:
        one = verifier_of(mechanism, TOKEN, b"salt")
        scram.append(
            ScramRow(
                mechanism=mechanism,
                salt=one.salt,
                iterations=one.iterations,
                stored_key=one.stored_key,
                server_key=one.server_key,
            )
        )
    return CallerRow(
        name="ann",
        principal="ann",
        operations=("consume", "produce"),
        prefix="0a0b0c0d",
        digest=hashlib.sha256(SECRET).digest(),
        scram=tuple(scram),
    )


def guard(*, certificate: str = "", sasl: bool = True) -> Guard:
    pair = None
    if certificate:
        pair = Certificate(CERTIFICATES / f"{certificate}.crt", CERTIFICATES / f"{certificate}.key")
    made = Guard(sasl=sasl, certificate=pair)
    made.know((row(),))
    return made


def tell_versions(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
    reply.send(answer_api_versions(header))


@asynccontextmanager
async def door(keeper: Guard) -> AsyncIterator[str]:
    """The address of a door that answers who has passed its gate."""
    server = KafkaServer("test", tell_versions, gate=keeper.gate, certificate=keeper.certificate)
    port = server.listen("127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.drain(grace_ms=0)


def ann(protocol: str | None, mechanism: str = "SCRAM-SHA-256", ca: str = "first") -> Security:
    return Security(protocol, TOKEN, mechanism, str(CERTIFICATES / f"{ca}.crt"))


async def come_in(address: str, security: Security) -> None:
    connection = await BrokerConnection.open(address, "sdk", security)
    try:
        assert (await connection.ask(VERSIONS, timeout_s=5)).error_code == 0
    finally:
        connection.close()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
@pytest.mark.parametrize("certificate", ["", "first"])
async def test_a_token_is_proved(mechanism: str, certificate: str) -> None:
    async with door(keeper := guard(certificate=certificate)) as address:
        await come_in(address, ann(keeper.protocol, mechanism))


async def test_a_door_behind_tls_that_asks_for_nothing_more() -> None:
    async with door(guard(certificate="first", sasl=False)) as address:
        await come_in(address, ann(SSL))


@pytest.mark.parametrize(
    ("certificate", "ca", "why"),
    [
        ("second", "first", "self-signed certificate"),
        ("expired", "expired", "certificate has expired"),
        ("elsewhere", "elsewhere", "IP address mismatch"),
    ],
)
async def test_a_certificate_that_proves_nothing_is_shown_no_token(
    certificate: str, ca: str, why: str
) -> None:
    async with door(guard(certificate=certificate)) as address:
        with pytest.raises(BrokerNotTrusted, match=why):
            await come_in(address, ann(SASL_SSL, "PLAIN", ca))


async def test_a_token_that_was_taken_back_is_told_so() -> None:
    keeper = guard()
    keeper.know(())
    async with door(keeper) as address:
        with pytest.raises(BrokerNotTrusted, match="the token is refused: SASL_AUTHENTICATION_FAILED"):
            await come_in(address, ann(SASL_PLAINTEXT))


async def test_a_token_that_is_taken_back_in_the_middle_ends_the_connection() -> None:
    keeper = guard()
    server = KafkaServer("test", tell_versions, gate=keeper.gate)
    port = server.listen("127.0.0.1", 0)
    connection = await BrokerConnection.open(f"127.0.0.1:{port}", "sdk", ann(SASL_PLAINTEXT))
    await connection.ask(VERSIONS, timeout_s=5)
    keeper.know((), server)
    with pytest.raises(BrokerUnavailable):
        await connection.ask(VERSIONS, timeout_s=5)
    await server.drain(grace_ms=0)


async def test_plain_shows_nothing_where_somebody_may_listen() -> None:
    said: list[ApiKey] = []

    async def ask(key: ApiKey, _version: int, _body: object) -> object:
        said.append(key)
        return None

    with pytest.raises(Exception, match="PLAIN would show the token"):
        await ann(SASL_PLAINTEXT, "PLAIN").prove(ask, "broker.example")
    assert said == []


async def answering(*said: bytes) -> tuple[asyncio.Server, str]:
    """A server that knows no secret: it answers each request with the next of these bodies, then hangs up."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            for body in said:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                correlation_id = (await reader.readexactly(size))[4:8]
                writer.write(struct.pack(">i", 4 + len(body)) + correlation_id + body)
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


AGREES = b"\0\0" + struct.pack(">i", 0)
"""SaslHandshake: no error, no list of mechanisms."""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((AGREES, b"\0\0\0\0\x09e=nobody" + bytes(9)), "names no nonce"),
        ((struct.pack(">hi", 33, 0),), "SCRAM-SHA-256 is not served, but nothing"),
        ((AGREES,), "."),
        ((AGREES, b"\xff" * 20), "."),
        ((), "."),
    ],
)
async def test_a_server_that_proves_nothing_is_left(said: tuple[bytes, ...], why: str) -> None:
    server, address = await answering(*said)
    async with server:
        with pytest.raises(BrokerUnavailable, match=why):
            await come_in(address, ann(SASL_PLAINTEXT))


async def test_a_broker_that_falls_silent_in_the_handshake_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.client.broker_connection.CONNECT_TIMEOUT_S", 0.05)
    # Nobody accepts: the kernel answers, and no more.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        for protocol in (SASL_PLAINTEXT, SASL_SSL):
            with pytest.raises(BrokerUnavailable, match="no connection in time"):
                await come_in(address, ann(protocol))


@pytest.mark.parametrize("certificate", ["", "first"])
async def test_a_consumer_speaks_as_the_node_says(certificate: str, tmp_path: Path) -> None:
    keeper = guard(certificate=certificate)
    async with staged(tmp_path, guard=keeper, security=ann(keeper.protocol)) as stage:
        await stage.fill(3)
        stage.coordinator.shares = [places(0)]
        options = {"token": TOKEN, "ca_file": CERTIFICATES / "first.crt"}
        async with stage.consumer(**options) as consumer:
            assert await take(consumer, 3) == [(0, 0), (0, 1), (0, 2)]
            assert await consumer.end_offsets(("orders", 0)) == {("orders", 0): 3}


async def test_what_the_application_asks_for_counts_more(tmp_path: Path) -> None:
    keeper = guard()
    async with staged(tmp_path, guard=keeper, security=ann(keeper.protocol)) as stage:
        stage.coordinator.shares = [places(0)]
        # The node says that the broker speaks in the clear, and does not lie.
        async with stage.consumer(token=TOKEN, security_protocol=SASL_SSL) as consumer:
            async with asyncio.timeout(20):
                while consumer.state != "stalled":
                    await asyncio.sleep(0.005)


async def test_it_is_told_why_no_broker_is_trusted(tmp_path: Path) -> None:
    keeper = guard(certificate="first")
    async with staged(tmp_path, guard=keeper, security=ann(keeper.protocol)) as stage:
        stage.coordinator.shares = [places(0)]
        async with stage.consumer(token=TOKEN, ca_file=CERTIFICATES / "second.crt") as consumer:
            async with asyncio.timeout(20):
                while "certificate verify failed" not in consumer.state_text:
                    await asyncio.sleep(0.005)
            with pytest.raises(OffsetsUnknown, match="certificate verify failed"):
                await consumer.end_offsets(("orders", 0))


def test_a_node_says_nothing_of_a_broker_that_speaks_in_the_clear() -> None:
    told: Callable[[str], Security] = replace(ann(None)).told
    assert told(PLAINTEXT).protocol == PLAINTEXT and told(SASL_SSL).protocol == SASL_SSL
    assert ann(SASL_SSL).told(PLAINTEXT).protocol == SASL_SSL
    assert TOKEN not in repr(told(SASL_SSL))
