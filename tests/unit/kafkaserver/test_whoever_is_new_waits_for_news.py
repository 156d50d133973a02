"""Nobody is refused at a Kafka door for a token that is newer than what the door was told."""

import asyncio
import struct

import pytest

from kafkaserver.guard import Guard
from kafkaserver.limits import ServerLimits
from kafkaserver.newcomers import LOOKS, WAITING_OF_ONE
from kafkaserver.replies import HEARD_AGAIN_MS
from kafkaserver.sasl import REPLACED, SaslGate
from kafkaserver.server import KafkaServer
from muster.kafkawire.api_table import ApiKey
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scram import SHA_256
from muster.messages.link.callers import CallerRow
from tests.unit.kafkaserver.kafka_requests import body_of, frame
from tests.unit.kafkaserver.test_a_gate_hears_sasl_first import authenticate, handshake, proof
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import TOKEN, row

FIRST = b"n,,n=orders-app,r=client-nonce"
PLAIN = f"\0orders-app\0{TOKEN}".encode()


@pytest.fixture
def guard() -> Guard:
    guard = Guard(sasl=True)
    guard.know(())
    guard.wait_for_newcomers()
    return guard


def said(guard: Guard, mechanism: str, message: bytes) -> SaslGate:
    """A gate that has heard this first message of a client, and waits."""
    at = guard.gate("127.0.0.1")
    assert at is not None
    handshake(at, mechanism)
    assert at.hear(frame(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=message)) == b""
    assert at.held and not at.ended
    return at


def heard_again(at: SaslGate) -> tuple[ErrorCode, bytes]:
    body = body_of(ApiKey.SASL_AUTHENTICATE, 2, at.hear(memoryview(at.held)))
    assert not at.held
    return ErrorCode(body.error_code), bytes(body.auth_bytes)


def test_a_token_that_is_told_of_a_moment_later_is_good(guard: Guard) -> None:
    at = said(guard, "PLAIN", PLAIN)
    assert at.hear(memoryview(at.held)) == b"" and at.held
    guard.know((row(),))
    assert heard_again(at)[0] is ErrorCode.NONE
    assert at.admitted == guard.caller("orders-app")


@pytest.mark.parametrize("user", ["orders-app", "mst_0a0b0c0d"])
def test_a_proof_of_such_a_token_is_good(guard: Guard, user: str) -> None:
    first = f"n,,n={user},r=client-nonce".encode()
    at = said(guard, SHA_256, first)
    guard.know((row(),))
    error, answer = heard_again(at)
    assert error is ErrorCode.NONE
    assert authenticate(at, proof(SHA_256, TOKEN, first, answer))[0] is ErrorCode.NONE
    assert at.admitted == guard.caller("orders-app")


@pytest.mark.parametrize(("mechanism", "message"), [("PLAIN", PLAIN), (SHA_256, FIRST)])
def test_a_stranger_is_refused_in_the_end(guard: Guard, mechanism: str, message: bytes) -> None:
    at = said(guard, mechanism, message)
    for _ in range(LOOKS - 1):
        assert at.hear(memoryview(at.held)) == b""
    error, answer = heard_again(at)
    if mechanism == SHA_256:
        # It is not told that nobody bears this name.
        assert error is ErrorCode.NONE
        error, _ = authenticate(at, proof(SHA_256, TOKEN, FIRST, answer))
    assert error is ErrorCode.SASL_AUTHENTICATION_FAILED and at.ended and at.admitted is None


async def test_it_is_refused_when_all_that_there_is_has_been_told() -> None:
    guard, asked = Guard(sasl=True), list[tuple[str, str]]()
    guard.know(())
    told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def look_for(name: str, peer: str) -> asyncio.Future[None]:
        asked.append((name, peer))
        return told

    guard.wait_for_newcomers(look_for)
    at = said(guard, "PLAIN", PLAIN)
    assert at.hear(memoryview(at.held)) == b""
    assert asked == [("mst_0a0b0c0d", "127.0.0.1")]
    told.set_result(None)
    assert heard_again(at)[0] is ErrorCode.SASL_AUTHENTICATION_FAILED


def proving(guard: Guard, token: str, looks: list[asyncio.Future[None]]) -> tuple[SaslGate, memoryview]:
    """A gate that knows who speaks, and waits with the proof that it heard; what it heard."""

    def look_for(name: str, peer: str) -> asyncio.Future[None]:
        assert (name, peer) == ("orders-app", "127.0.0.1")
        looks.append(asyncio.get_running_loop().create_future())
        return looks[-1]

    guard.know((row(),))
    guard.wait_for_newcomers(look_for)
    at = guard.gate("127.0.0.1")
    assert at is not None
    handshake(at, SHA_256)
    error, answer = authenticate(at, FIRST)
    assert error is ErrorCode.NONE
    message = frame(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=proof(SHA_256, token, FIRST, answer))
    return at, message


async def test_a_proof_of_a_newer_token_of_a_known_name_is_to_be_given_again(guard: Guard) -> None:
    looks: list[asyncio.Future[None]] = []
    at, message = proving(guard, TOKEN[:-1] + "B", looks)
    assert at.hear(message) == b"" and at.held
    guard.know((row(prefix="0a0b0c0e"),))
    looks[0].set_result(None)
    # No refusal, which clients take for final: the salt belonged to the older token.
    assert at.hear(memoryview(at.held)) == b"" and not at.held
    assert at.ended == REPLACED and at.admitted is None


async def test_one_that_was_told_of_between_both_messages_has_nobody_looked_for(guard: Guard) -> None:
    looks: list[asyncio.Future[None]] = []
    at, message = proving(guard, TOKEN[:-1] + "B", looks)
    guard.know((row(prefix="0a0b0c0e"),))
    assert at.hear(message) == b"" and at.ended == REPLACED and looks == []


@pytest.mark.parametrize("now", [(row(),), ()])
async def test_whoever_guesses_a_secret_of_a_known_name_is_refused_when_nothing_is_newer(
    guard: Guard, now: tuple[CallerRow, ...]
) -> None:
    looks: list[asyncio.Future[None]] = []
    at, message = proving(guard, TOKEN[:-1] + "B", looks)
    assert at.hear(message) == b"" and at.held
    guard.know(now)
    looks[0].set_result(None)
    assert heard_again(at)[0] is ErrorCode.SASL_AUTHENTICATION_FAILED and len(looks) == 1
    assert guard._newcomers is not None and not len(guard._newcomers)


async def test_whoever_proves_a_known_token_waits_for_nothing(guard: Guard) -> None:
    looks: list[asyncio.Future[None]] = []
    at, message = proving(guard, TOKEN, looks)
    assert body_of(ApiKey.SASL_AUTHENTICATE, 2, at.hear(message)).error_code == 0
    assert at.admitted == guard.caller("orders-app") and looks == []


def test_what_is_no_token_and_whoever_is_known_waits_for_nothing(guard: Guard) -> None:
    guard.know((row(),))
    for message in (b"\0orders-app\0guessed", PLAIN[:-1] + b"B"):
        at = guard.gate("127.0.0.1")
        assert at is not None
        handshake(at, "PLAIN")
        assert authenticate(at, message)[0] is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_of_one_network_only_so_many_wait(guard: Guard) -> None:
    waiting = [said(guard, "PLAIN", PLAIN) for _ in range(WAITING_OF_ONE)]
    one_more = guard.gate("127.0.0.1")
    assert one_more is not None
    handshake(one_more, "PLAIN")
    assert authenticate(one_more, PLAIN)[0] is ErrorCode.SASL_AUTHENTICATION_FAILED
    elsewhere = guard.gate("127.0.0.2")
    assert elsewhere is not None
    handshake(elsewhere, "PLAIN")
    assert elsewhere.hear(frame(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=PLAIN)) == b"" and elsewhere.held
    waiting[0].leave()
    said(guard, "PLAIN", PLAIN)
    guard.know((row(),))
    for at in waiting[1:]:
        assert heard_again(at)[0] is ErrorCode.NONE
    assert guard._newcomers is not None and len(guard._newcomers) == 2


async def test_a_client_on_a_socket_is_let_in_when_its_token_is_told_of(guard: Guard) -> None:
    door = KafkaServer("test", lambda *_: None, ServerLimits(), guard.gate)
    reader, writer = await asyncio.open_connection("127.0.0.1", door.listen("127.0.0.1", 0))
    async with asyncio.timeout(10):
        try:
            writer.write(framed(frame(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")))
            await answered(reader)
            # What comes behind it waits for it.
            writer.write(framed(frame(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=PLAIN)))
            writer.write(framed(frame(ApiKey.API_VERSIONS, 0)))
            guard_is_asked = guard._newcomers
            assert guard_is_asked is not None
            while not len(guard_is_asked):
                await asyncio.sleep(HEARD_AGAIN_MS / 1000)
            guard.know((row(),))
            body = body_of(ApiKey.SASL_AUTHENTICATE, 2, await answered(reader))
            assert body.error_code == ErrorCode.NONE
            [connection] = door._connections
            assert connection.identity == guard.caller("orders-app")
        finally:
            writer.close()
            await door.drain(grace_ms=0)


async def test_who_hangs_up_while_it_waits_leaves_its_place(guard: Guard) -> None:
    door = KafkaServer("test", lambda *_: None, ServerLimits(), guard.gate)
    _, writer = await asyncio.open_connection("127.0.0.1", door.listen("127.0.0.1", 0))
    waiting = guard._newcomers
    assert waiting is not None
    async with asyncio.timeout(10):
        writer.write(framed(frame(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")))
        writer.write(framed(frame(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=PLAIN)))
        while not len(waiting):
            await asyncio.sleep(HEARD_AGAIN_MS / 1000)
        writer.close()
        await door.drain(grace_ms=0)
    assert not len(waiting)


def framed(payload: memoryview) -> bytes:
    return struct.pack(">i", len(payload)) + bytes(payload)


async def answered(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return struct.pack(">i", length) + await reader.readexactly(length)
