"""SCRAM as RFC 7677 writes it down, from the client's side, and what a server cannot make it do."""

import base64

import pytest

from muster.kernel.scram import (
    ITERATIONS_MAX,
    SHA_256,
    SHA_512,
    ClientSide,
    ScramError,
    ServerSide,
    verifier_of,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "rOprNGfwEbeRWgbNEkqO"
ANSWER = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client(password: str = "pencil") -> ClientSide:
    return ClientSide(SHA_256, "user", password, NONCE)


def test_the_exchange_of_rfc_7677() -> None:
    ann = client()
    assert ann.first() == f"n,,n=user,r={NONCE}".encode()
    assert ann.second(ANSWER).endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    ann.accept(SIGNATURE)


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_both_sides_of_ours_understand_each_other(mechanism: str) -> None:
    server = ServerSide(mechanism, lambda _: verifier_of(mechanism, "pencil", SALT), "server")
    ann = ClientSide(mechanism, "a,b=c", "pencil", "client")
    signature = server.second(ann.second(server.first(ann.first())))
    assert server.user == "a,b=c" and signature is not None
    ann.accept(signature)


@pytest.mark.parametrize("said", [b"", b"v=", b"v=AAAA", b"e=other-error", SIGNATURE[:-4] + b"AAA="])
def test_a_server_that_did_not_know_the_secret_is_not_believed(said: bytes) -> None:
    ann = client()
    ann.second(ANSWER)
    with pytest.raises(ScramError):
        ann.accept(said)


def test_a_signature_is_not_believed_before_there_was_a_proof() -> None:
    with pytest.raises(ScramError):
        client().accept(SIGNATURE)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"e=unknown-user",
        ANSWER.replace(b"r=rO", b"r=xO"),
        f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(),
        ANSWER.replace(b"i=4096", b"i=1"),
        ANSWER.replace(b"i=4096", b"i=%d" % (ITERATIONS_MAX + 1)),
        ANSWER.replace(b"i=4096", b"i=" + b"9" * 900),
        ANSWER.replace(b"i=4096", b"i=-4096"),
        ANSWER.replace(b"s=W2", b"s=!!"),
        b"m=ext," + ANSWER,
        b"\xff\xfe",
    ],
)
def test_a_wrong_answer_costs_nothing(answer: bytes) -> None:
    with pytest.raises(ScramError):
        client().second(answer)
