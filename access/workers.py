"""This room makes the credential by which our own workers come in at a broker; it is stored nowhere.

It follows from SECRET_KEY, which nodes and workers share: a worker computes the token, a node what proves it.
Brokers are told only the latter. It may ask where logs begin and end, and nothing else (ADR 13).
"""

import base64
import hashlib
import hmac
from functools import lru_cache
from typing import Final

from access.grants import Operation
from muster.kernel.scram import HASHES, verifier_of
from muster.messages.link.callers import CallerRow, ScramRow

NAME: Final = "muster-worker"
"""No token of a table may have it."""

_PREFIX: Final = "-worker-"
"""As long as a made token's, whose hexadecimal digits never read so."""
_SALT_BYTES: Final = 16


def token_text(secret_key: str) -> str:
    """The token that workers show."""
    secret = base64.urlsafe_b64encode(_secret(secret_key)).rstrip(b"=").decode()
    return f"mst_{_PREFIX}_{secret}"


@lru_cache(1)
def caller_row(secret_key: str) -> CallerRow:
    """What nodes and brokers know of workers; the same at each node, as salts follow from the key, too."""
    scram = []
    for mechanism in sorted(HASHES):
        salt = _derived(secret_key, f"salt of {mechanism}")[:_SALT_BYTES]
        one = verifier_of(mechanism, token_text(secret_key), salt)
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
        name=NAME,
        principal=NAME,
        operations=(Operation.VIEW.value,),
        prefix=_PREFIX,
        digest=hashlib.sha256(_secret(secret_key)).digest(),
        # Topics of any name, and no group: none has this one's.
        groups=(NAME,),
        scram=tuple(scram),
    )


def _secret(secret_key: str) -> bytes:
    return _derived(secret_key, "token")


def _derived(secret_key: str, what: str) -> bytes:
    return hmac.digest(secret_key.encode(), f"muster worker: {what}".encode(), "sha256")
