"""Before a client has proved who it is, a door with a gate hears ApiVersions and SASL, and nothing else."""

import base64
import hashlib
import hmac

import pytest

from kafkaserver.sasl import SaslGate
from muster.kafkawire.api_table import ApiKey
from muster.kafkawire.errors import KafkaWireError, NotAdmitted
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scram import HASHES, SHA_256, SHA_512, Verifier, verifier_of
from tests.unit.kafkaserver.kafka_requests import body_of, frame

SALT = b"salt of a test"


class Known:
    """Credentials of one user, `ann`, whose secret is `pencil`."""

    def __init__(self) -> None:
        self.shut_out = False
        self.are_fresh = True

    def verifier(self, mechanism: str, user: str) -> Verifier:
        return verifier_of(mechanism, "pencil" if user == "ann" else "nobody knows", SALT)

    def caller(self, user: str) -> object | None:
        return None if self.shut_out else user

    def caller_of_token(self, user: str, presented: str) -> object | None:
        return user if (user, presented) == ("ann", "pencil") else None


def gate(*, plain: bool = True, known: Known | None = None) -> SaslGate:
    return SaslGate(known or Known(), lambda: "server-nonce", plain=plain)


def handshake(at: SaslGate, mechanism: str, version: int = 1) -> ErrorCode:
    answer = at.hear(frame(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism))
    return ErrorCode(body_of(ApiKey.SASL_HANDSHAKE, version, answer).error_code)


def authenticate(at: SaslGate, message: bytes, version: int = 2) -> tuple[ErrorCode, bytes]:
    answer = at.hear(frame(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=message))
    body = body_of(ApiKey.SASL_AUTHENTICATE, version, answer)
    return ErrorCode(body.error_code), bytes(body.auth_bytes)


def proof(mechanism: str, password: str, first: bytes, said: bytes) -> bytes:
    """What a client answers, written from the RFC's formulas."""
    name = HASHES[mechanism]
    fields = dict(part.split("=", 1) for part in said.decode().split(","))
    salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", name)
    last = f"c=biws,r={fields['r']}".encode()
    everything = first.removeprefix(b"n,,") + b"," + said + b"," + last
    signature = hmac.digest(hashlib.new(name, client_key).digest(), everything, name)
    proved = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return last + b",p=" + base64.b64encode(proved)


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_scram_admits_who_proves_the_secret(mechanism: str, version: int) -> None:
    at, first = gate(), b"n,,n=ann,r=client-nonce"
    assert handshake(at, mechanism) is ErrorCode.NONE
    error, said = authenticate(at, first, version)
    assert (error, at.admitted) == (ErrorCode.NONE, None)
    error, signature = authenticate(at, proof(mechanism, "pencil", first, said), version)
    assert (error, at.admitted) == (ErrorCode.NONE, "ann")
    assert signature.startswith(b"v=")


def test_a_wrong_secret_is_refused_and_hung_up_on() -> None:
    at, first = gate(), b"n,,n=ann,r=client-nonce"
    handshake(at, SHA_256)
    _, said = authenticate(at, first)
    error, _ = authenticate(at, proof(SHA_256, "pen", first, said))
    assert error is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert at.admitted is None
    assert at.ended


def test_who_was_shut_out_proves_in_vain() -> None:
    known = Known()
    at, first = gate(known=known), b"n,,n=ann,r=client-nonce"
    handshake(at, SHA_256)
    _, said = authenticate(at, first)
    known.shut_out = True
    assert authenticate(at, proof(SHA_256, "pencil", first, said))[0] is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_nobody_is_refused_by_what_is_too_old_to_be_believed() -> None:
    """A client that hears of a failed authentication gives up; one that is hung up on comes again."""
    known = Known()
    at, first = gate(known=known), b"n,,n=ann,r=client-nonce"
    handshake(at, SHA_256)
    known.are_fresh = False
    assert at.hear(frame(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=first)) == b""
    assert at.admitted is None and at.ended


def test_plain_shows_a_token() -> None:
    at = gate()
    handshake(at, "PLAIN")
    assert authenticate(at, b"\0ann\0pencil")[0] is ErrorCode.NONE
    assert at.admitted == "ann"


@pytest.mark.parametrize(
    "message", [b"", b"ann\0pencil", b"ben\0ann\0pencil", b"\0ann\0pen", b"\0\xff\0pencil"]
)
def test_plain_refuses(message: bytes) -> None:
    at = gate()
    handshake(at, "PLAIN")
    assert authenticate(at, message)[0] is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert at.ended


def test_plain_is_not_offered_where_somebody_may_listen() -> None:
    at = gate(plain=False)
    answer = at.hear(frame(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"))
    body = body_of(ApiKey.SASL_HANDSHAKE, 1, answer)
    assert ErrorCode(body.error_code) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert set(body.mechanisms) == {SHA_256, SHA_512}
    assert not at.ended


def test_a_client_that_asks_for_too_much_may_choose_again() -> None:
    at = gate(plain=False)
    handshake(at, "GSSAPI")
    assert handshake(at, SHA_256) is ErrorCode.NONE


def test_authenticating_before_the_handshake() -> None:
    at = gate()
    assert authenticate(at, b"\0ann\0pencil")[0] is ErrorCode.ILLEGAL_SASL_STATE
    assert at.ended


def test_a_second_handshake() -> None:
    at = gate()
    handshake(at, SHA_256)
    assert handshake(at, SHA_512) is ErrorCode.ILLEGAL_SASL_STATE
    assert at.ended


def test_after_the_oldest_handshake_the_messages_come_bare() -> None:
    at = gate()
    handshake(at, "PLAIN", version=0)
    assert at.hear(memoryview(b"\0ann\0pencil")) == b"\0\0\0\0"
    assert at.admitted == "ann"


def test_a_bare_message_that_proves_nothing_ends_it() -> None:
    at = gate()
    handshake(at, "PLAIN", version=0)
    with pytest.raises(NotAdmitted):
        at.hear(memoryview(b"\0ann\0pen"))


def test_versions_are_told_to_everybody() -> None:
    answer = gate().hear(frame(ApiKey.API_VERSIONS, 0))
    served = {api.api_key for api in body_of(ApiKey.API_VERSIONS, 0, answer).api_keys}
    assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= served


def test_nothing_else_is_heard() -> None:
    with pytest.raises(KafkaWireError):
        gate().hear(frame(ApiKey.METADATA, 1, topics=None))
