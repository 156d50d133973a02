"""This room knows which broker may link: it enrolls brokers and checks the secrets they show."""

import hashlib
from hmac import compare_digest
from typing import Any

from psycopg import Connection

from controller import statements

_NOBODYS_HASH = hashlib.sha256(b"no broker has this secret").digest()


def enroll(connection: Connection[Any], broker_id: int, secret: str, *, rotate: bool) -> bool:
    """Store the hash of a broker's secret; False if it is enrolled already and `rotate` is off."""
    values = {"broker_id": broker_id, "secret_hash": hash_of(secret)}
    with connection.cursor() as cursor:
        if cursor.execute(statements.ENROLL, values).rowcount:
            return True
        return bool(rotate and cursor.execute(statements.ROTATE_SECRET, values).rowcount)


def hash_of(secret: str) -> bytes:
    """SHA-256: the secrets are 32 random bytes, so a slow hash would protect nothing more."""
    return hashlib.sha256(secret.encode()).digest()


class Enrolment:
    """The hash of each enrolled broker's secret, as last loaded; checking costs no SQL."""

    def __init__(self, hashes: dict[int, bytes] | None = None) -> None:
        self.is_loaded = hashes is not None
        self._hashes = hashes or {}

    @classmethod
    def load(cls, connection: Connection[Any]) -> "Enrolment":
        with connection.cursor() as cursor:
            rows = cursor.execute(statements.READ_SECRETS).fetchall()
        return cls({broker_id: bytes(secret_hash) for broker_id, secret_hash in rows})

    def revoke(self, broker_id: int) -> None:
        """Its secret opens nothing from now on; it was unregistered."""
        self._hashes.pop(broker_id, None)

    def admits(self, broker_id: int, secret: str) -> bool:
        """True if this is the broker's secret; takes as long for a broker that does not exist."""
        stored = self._hashes.get(broker_id, _NOBODYS_HASH)
        return compare_digest(stored, hash_of(secret)) and broker_id in self._hashes


def broker_credentials(authorization: bytes | None) -> tuple[int, str] | None:
    """Broker id and secret of an `Authorization: Bearer <id>:<secret>` header; None: it is none."""
    if authorization is None or len(authorization) > 512:
        return None
    scheme, _, credentials = authorization.partition(b" ")
    broker_id, colon, secret = credentials.strip().partition(b":")
    if (
        scheme.lower() != b"bearer"
        or not colon
        or not secret
        or not (0 < len(broker_id) <= 4 and broker_id.isdigit())
    ):
        return None
    try:
        return int(broker_id), secret.decode("ascii")
    except UnicodeDecodeError:
        return None
