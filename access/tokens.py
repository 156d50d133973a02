"""This room makes and compares token texts; it knows neither tables nor requests.

A token reads `mst_<prefix>_<secret>`: the prefix is public and finds the row, the secret is 32
random bytes in URL-safe base64. Only the SHA-256 of those bytes is stored: a slow hash protects
guessable secrets, and 256 random bits are not guessable.
"""

import base64
import hashlib
import secrets
from dataclasses import dataclass
from hmac import compare_digest

from access.grants import Operation, Role, role_may
from muster.kernel.scopes import EVERYTHING, Scope
from muster.kernel.token_text import PREFIX_HEX_DIGITS, SECRET_BYTES, read_token

_NO_DIGEST = bytes(32)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who stands at a door, proven: the principal, the role of this entry, the name of the token."""

    principal: str
    role: Role
    token: str
    topics: Scope = EVERYTHING
    groups: Scope = EVERYTHING

    def may(self, operation: Operation) -> bool:
        """True if this caller's role includes `operation`."""
        return role_may(self.role, operation)

    @property
    def is_unbounded(self) -> bool:
        """Whether it is good for every topic and group: only then is it told of others' names."""
        return self.topics.is_everything and self.groups.is_everything


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made; `text` is shown once and never stored."""

    text: str
    prefix: str
    digest: bytes


def new_token() -> NewToken:
    """Make a token from the system's random source."""
    prefix = secrets.token_hex(PREFIX_HEX_DIGITS // 2)
    secret = secrets.token_bytes(SECRET_BYTES)
    text = f"mst_{prefix}_{base64.urlsafe_b64encode(secret).rstrip(b'=').decode()}"
    return NewToken(text, prefix, hashlib.sha256(secret).digest())


def bearer(header: str | bytes | None) -> str | None:
    """The token text of an `Authorization: Bearer …` header; None if it is absent or of another kind."""
    if header is None:
        return None
    text = header.decode("latin-1") if isinstance(header, bytes) else header
    scheme, _, rest = text.partition(" ")
    return rest.strip() if scheme.lower() == "bearer" and rest.strip() else None


@dataclass(frozen=True, slots=True)
class KnownToken:
    """One living token as the node keeps it in memory."""

    digest: bytes
    caller: Caller


class TokenMap:
    """All living tokens at one moment, by the database's clock; asking it costs no SQL."""

    def __init__(self, known: dict[str, KnownToken]) -> None:
        self._known = known
        self._proved: dict[str, KnownToken] = {}

    def __len__(self) -> int:
        return len(self._known)

    def verify(self, presented: str) -> Caller | None:
        """The caller whose token `presented` is, in constant time; None if unknown, or over by then.

        Thousands of open connections show theirs every few seconds: what was proved once is kept.
        """
        known = self._proved.get(presented) or self._prove(presented)
        return None if known is None else known.caller

    def _prove(self, presented: str) -> KnownToken | None:
        read = read_token(presented)
        if read is None:
            return None
        prefix, digest = read
        known = self._known.get(prefix)
        if not compare_digest(known.digest if known else _NO_DIGEST, digest) or known is None:
            return None
        self._proved[presented] = known
        return known
