"""This room computes SCRAM (RFC 5802, RFC 7677): what a server stores of a secret, and how it is proved.

Nothing here draws a nonce or a salt: whoever calls brings them. Passwords are taken as UTF-8 without
SASLprep, which changes nothing in ASCII, and a token's text is ASCII.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

SHA_256: Final = "SCRAM-SHA-256"
SHA_512: Final = "SCRAM-SHA-512"
HASHES: Final = {SHA_256: "sha256", SHA_512: "sha512"}

ITERATIONS: Final = 4_096
"""The least that clients accept. More would protect a secret that can be guessed: a token's 256 random bits
cannot.
"""

MESSAGE_CHARACTERS_MAX: Final = 1_024
NONCE_CHARACTERS_MAX: Final = 256

ITERATIONS_MAX: Final = 100_000
"""What a client computes at most on a server's word: about fifty milliseconds."""


class ScramError(Exception):
    """The peer's message is not what RFC 5802 allows, or proves nothing; the text may be told to it."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """What a server keeps of one secret for one mechanism; it does not allow to act as its holder."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def verifier_of(mechanism: str, password: str, salt: bytes, iterations: int = ITERATIONS) -> Verifier:
    """The verifier of `password`. Costs milliseconds: not for an event loop."""
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    return Verifier(
        salt, iterations, hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name)
    )


class ServerSide:
    """One exchange: the client's first message, ours, its proof, our signature.

    `find` gives the verifier of a user; for one that is not there it must give that of a secret that nobody
    knows, the same each time, so that a stranger does not learn who exists.
    """

    def __init__(self, mechanism: str, find: Callable[[str], Verifier], nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._find = find
        self._nonce = nonce
        self._verifier: Verifier | None = None
        self._said = b""
        self._header = b""
        self.user: str | None = None
        """Who speaks, as it says itself; proved when `second` has returned."""

    def first(self, message: bytes) -> bytes:
        """Our answer to the client's first message. Raises ScramError."""
        text = _text(message)
        flag, _, rest = text.partition(",")
        authorization, _, bare = rest.partition(",")
        if flag not in ("n", "y"):
            raise ScramError("channel binding is not served")
        fields = bare.split(",")
        if len(fields) < 2 or fields[0][:2] != "n=" or fields[1][:2] != "r=":
            raise ScramError("the first message names no user or no nonce")
        user, client_nonce = _unescaped(fields[0][2:]), fields[1][2:]
        if not user or not client_nonce or len(client_nonce) > NONCE_CHARACTERS_MAX:
            raise ScramError("the first message names no user or no nonce")
        if authorization not in ("", f"a={fields[0][2:]}"):
            raise ScramError("nobody acts for somebody else here")
        self.user = user
        self._nonce = client_nonce + self._nonce
        self._verifier = verifier = self._find(user)
        salt = base64.b64encode(verifier.salt).decode()
        answer = f"r={self._nonce},s={salt},i={verifier.iterations}".encode()
        self._header = f"{flag},{authorization},".encode()
        self._said = bare.encode() + b"," + answer
        return answer

    def second(self, message: bytes) -> bytes | None:
        """Our signature, if the client has proved that it knows the secret; else None. Raises ScramError."""
        if self._verifier is None:
            raise ScramError("the first message is missing")
        text = _text(message)
        without_proof, separator, proof_text = text.rpartition(",p=")
        fields = without_proof.split(",")
        if not separator or len(fields) < 2 or fields[0][:2] != "c=" or fields[1][:2] != "r=":
            raise ScramError("the last message holds no proof")
        if _decoded(fields[0][2:]) != self._header or fields[1][2:] != self._nonce:
            raise ScramError("the last message belongs to another exchange")
        proof, verifier, name = _decoded(proof_text), self._verifier, self._hash
        said = self._said + b"," + without_proof.encode()
        signature = hmac.digest(verifier.stored_key, said, name)
        if len(proof) != len(signature):
            return None
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(name, client_key).digest(), verifier.stored_key):
            return None
        return b"v=" + base64.b64encode(hmac.digest(verifier.server_key, said, name))


class ClientSide:
    """One exchange as the client: two messages, and the server must show that it knew the secret, too."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._password = password
        self._nonce = nonce
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        """Who speaks."""
        return f"n,,{self._bare}".encode()

    def second(self, message: bytes) -> bytes:
        """The proof, for the server's answer to `first`. Costs milliseconds. Raises ScramError."""
        answer = _text(message)
        fields = answer.split(",")
        if len(fields) < 3 or [field[:2] for field in fields[:3]] != ["r=", "s=", "i="]:
            raise ScramError("the server's first message names no nonce, salt and iterations")
        nonce, salt, iterations = fields[0][2:], _decoded(fields[1][2:]), fields[2][2:]
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("the server's first message belongs to another exchange")
        if not iterations.isdecimal() or not ITERATIONS <= int(iterations[:9]) <= ITERATIONS_MAX:
            raise ScramError(f"{iterations[:9]!r} iterations are not from {ITERATIONS} to {ITERATIONS_MAX}")
        name = self._hash
        salted = hashlib.pbkdf2_hmac(name, self._password.encode(), salt, int(iterations))
        client_key = hmac.digest(salted, b"Client Key", name)
        last = f"c={base64.b64encode(b'n,,').decode()},r={nonce}"
        said = f"{self._bare},{answer},{last}".encode()
        signature = hmac.digest(hashlib.new(name, client_key).digest(), said, name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", name), said, name)
        return f"{last},p={base64.b64encode(proof).decode()}".encode()

    def accept(self, message: bytes) -> None:
        """Raise ScramError unless the server has proved that it knows this secret's verifier."""
        verifier, _, _ = _text(message).partition(",")
        shown = _decoded(verifier[2:]) if verifier.startswith("v=") else b""
        if self._signature is None or not hmac.compare_digest(shown, self._signature):
            raise ScramError("the server has not proved that it knows the secret")


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_CHARACTERS_MAX:
        raise ScramError("the message is too long")
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise ScramError("the message is no UTF-8") from error


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ScramError("the message is no base64 where it must be") from error


def _unescaped(name: str) -> str:
    plain = name.replace("=2C", ",").replace("=3D", "\0")
    if "=" in plain or "\0" in name:
        raise ScramError("the user's name is not escaped as it must be")
    return plain.replace("\0", "=")
