"""Whoever is connected and has not said yet who it is, is judged by the tokens of the moment when it does."""

import pytest

from kafkaserver.guard import Guard
from kafkaserver.sasl import SaslGate
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scram import SHA_256
from tests.unit.kafkaserver.test_a_gate_hears_sasl_first import authenticate, handshake, proof
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import TOKEN, row

FIRST = b"n,,n=orders-app,r=client-nonce"


def connected(guard: Guard) -> SaslGate:
    gate = guard.gate("127.0.0.1")
    assert gate is not None
    return gate


@pytest.fixture
def guard() -> Guard:
    guard = Guard(sasl=True)
    guard.know((row(),))
    return guard


def test_a_token_taken_back_after_the_connection_was_made_is_refused(guard: Guard) -> None:
    at = connected(guard)
    guard.know(())
    handshake(at, "PLAIN")
    assert authenticate(at, f"\0orders-app\0{TOKEN}".encode())[0] is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert at.admitted is None and at.ended


@pytest.mark.parametrize("now", [(), (row(prefix="ffffffff"),), (row(topics=("orders",)),)])
def test_a_proof_of_a_token_that_is_another_by_now_proves_nothing(guard: Guard, now: tuple[object]) -> None:
    at = connected(guard)
    handshake(at, SHA_256)
    _, said = authenticate(at, FIRST)
    guard.know(now)  # type: ignore[arg-type]
    error, _ = authenticate(at, proof(SHA_256, TOKEN, FIRST, said))
    assert error is ErrorCode.SASL_AUTHENTICATION_FAILED and at.admitted is None


def test_a_token_made_after_the_connection_was_is_good(guard: Guard) -> None:
    guard.know(())
    at = connected(guard)
    guard.know((row(),))
    handshake(at, SHA_256)
    _, said = authenticate(at, FIRST)
    assert authenticate(at, proof(SHA_256, TOKEN, FIRST, said))[0] is ErrorCode.NONE
    assert at.admitted == guard.caller("orders-app") is not None
