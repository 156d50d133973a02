"""SCRAM as RFC 7677 writes it down, and what its server refuses."""

import base64

import pytest

from muster.kernel import scram
from muster.kernel.scram import SHA_256, SHA_512, ScramError, ServerSide, Verifier, verifier_of

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
LAST = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p="
PROOF = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


def side(mechanism: str = SHA_256, password: str = "pencil") -> ServerSide:
    def find(user: str) -> Verifier:
        return verifier_of(mechanism, password if user == "user" else "nobody knows", SALT)

    return ServerSide(mechanism, find, SERVER_NONCE)


def test_the_exchange_of_rfc_7677() -> None:
    server = side()
    said = server.first(FIRST)
    assert said == b"r=rOprNGfwEbeRWgbNEkqO" + SERVER_NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert server.second(LAST + PROOF) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.user == "user"


def test_another_password_is_not_proved() -> None:
    server = side(password="pen")
    server.first(FIRST)
    assert server.second(LAST + PROOF) is None


def test_who_is_not_there_is_answered_like_everybody() -> None:
    server = side()
    said = server.first(b"n,,n=stranger,r=rOprNGfwEbeRWgbNEkqO")
    assert said.startswith(b"r=rOprNGfwEbeRWgbNEkqO")
    assert server.second(LAST + PROOF) is None


def test_sha_512_keeps_longer_keys() -> None:
    verifier = verifier_of(SHA_512, "pencil", SALT)
    assert len(verifier.stored_key) == len(verifier.server_key) == 64


def test_names_are_unescaped() -> None:
    server = side()
    server.first(b"n,,n=a=2Cb=3Dc,r=x")
    assert server.user == "a,b=c"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"p=tls-unique,,n=user,r=x",
        b"n,a=admin,n=user,r=x",
        b"n,,n=,r=x",
        b"n,,n=user,r=",
        b"n,,r=x,n=user",
        b"n,,n=us=er,r=x",
        b"n,,n=user,r=" + b"x" * 300,
        b"n,,n=user,r=" + b"x" * 2000,
        b"\xff\xfe",
    ],
)
def test_a_wrong_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(ScramError):
        side().first(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        LAST.replace(b"c=biws", b"c=eSws") + PROOF,
        LAST.replace(b"r=rO", b"r=xO") + PROOF,
        LAST + b"!!!",
        LAST[: -len(b",p=")],
    ],
)
def test_a_wrong_last_message_is_refused(message: bytes) -> None:
    server = side()
    server.first(FIRST)
    with pytest.raises(ScramError):
        server.second(message)


def test_a_proof_of_another_length_proves_nothing() -> None:
    server = side()
    server.first(FIRST)
    assert server.second(LAST + base64.b64encode(b"short")) is None


def test_the_last_message_does_not_come_first() -> None:
    with pytest.raises(ScramError):
        side().second(LAST + PROOF)


def test_every_mechanism_has_a_hash() -> None:
    assert set(scram.HASHES) == {SHA_256, SHA_512}
