"""This room says how a connection to a broker is secured, and proves on it whose token the SDK holds.

What a stranger could learn by it decides: a token is never shown where others may listen, and a server must
show that it knew the token, too.
"""

import asyncio
import os
import secrets
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from muster.kafkawire.api_table import ApiKey, build, request_class
from muster.kernel.addresses import is_loopback
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scram import HASHES, SHA_256, ClientSide, ScramError
from muster.kernel.security_protocols import PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (*HASHES, PLAIN)
_NONCE_BYTES: Final = 24

Ask = Callable[[ApiKey, int, Any], Awaitable[Any]]
"""One request on the connection that is to be secured: key, version, body; its answer."""


class NotTrusted(Exception):
    """One side did not prove to the other who it is; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class Security:
    """How brokers are spoken to; protocols and mechanisms by Kafka's words.

    `protocol` None: as the node says, and in the clear as long as nobody has said anything. `ca_file` holds
    whom to trust in place of what the system trusts.
    """

    protocol: str | None = None
    token: str = field(default="", repr=False)
    mechanism: str = SHA_256
    ca_file: str | None = None

    def told(self, protocol: str) -> "Security":
        """The same where a node says this of a broker; what the application asked for counts more."""
        return self if self.protocol else replace(self, protocol=protocol)

    @property
    def behind_tls(self) -> bool:
        """Whether the connection is TLS."""
        return self.protocol in (SSL, SASL_SSL)

    def context(self) -> ssl.SSLContext | None:
        """What TLS is spoken with: certificate and name of the server are checked. None: no TLS.

        Raises OSError for a `ca_file` that cannot be used.
        """
        return trusting(self.ca_file) if self.behind_tls else None

    async def prove(self, ask: Ask, host: str) -> None:
        """Prove on a fresh connection to `host` who we are, if that is asked for.

        Raises NotTrusted, and what `ask` raises.
        """
        if self.protocol in (None, PLAINTEXT, SSL):
            return
        if self.protocol not in (SASL_PLAINTEXT, SASL_SSL):
            raise NotTrusted(f"it is to be spoken to by {self.protocol!r}, which nobody here knows")
        if self.mechanism == PLAIN and not (self.behind_tls or is_loopback(host)):
            raise NotTrusted("PLAIN would show the token to whoever listens; it is for TLS and loopback")
        body = build(request_class(ApiKey.SASL_HANDSHAKE, 1), mechanism=self.mechanism)
        answer = await ask(ApiKey.SASL_HANDSHAKE, 1, body)
        if answer.error_code != ErrorCode.NONE:
            raise NotTrusted(
                f"{self.mechanism} is not served, but {', '.join(answer.mechanisms) or 'nothing'}"
            )
        if self.mechanism == PLAIN:
            await _say(ask, f"\0{self.user}\0{self.token}".encode())
        else:
            await self._prove_by_scram(ask)

    async def _prove_by_scram(self, ask: Ask) -> None:
        side = ClientSide(self.mechanism, self.user, self.token, secrets.token_urlsafe(_NONCE_BYTES))
        answer = await _say(ask, side.first())
        try:
            proof = await asyncio.to_thread(side.second, answer)
            side.accept(await _say(ask, proof))
        except ScramError as problem:
            raise NotTrusted(str(problem)) from problem

    @property
    def user(self) -> str:
        """The public part of the token, by which every door finds it."""
        return "_".join(self.token.split("_", 2)[:2])


IN_THE_CLEAR: Final = Security(PLAINTEXT)
AS_TOLD: Final = Security()


def trusting(ca_file: str | None) -> ssl.SSLContext:
    """A context that checks certificate and name of a server; a file that changed is read again.

    Raises OSError for one that cannot be used.
    """
    return _context(ca_file, os.stat(ca_file).st_mtime_ns if ca_file else 0)


@lru_cache(8)
def _context(ca_file: str | None, _stamp: int) -> ssl.SSLContext:
    """To read what a system trusts takes ten milliseconds, which no connection needs to wait for twice."""
    return ssl.create_default_context(cafile=ca_file)


async def _say(ask: Ask, message: bytes) -> bytes:
    body = build(request_class(ApiKey.SASL_AUTHENTICATE, 2), auth_bytes=message)
    answer = await ask(ApiKey.SASL_AUTHENTICATE, 2, body)
    if answer.error_code != ErrorCode.NONE:
        name = ErrorCode(answer.error_code).name
        raise NotTrusted(f"the token is refused: {name}: {answer.error_message or 'no reason is told'}")
    return bytes(answer.auth_bytes)
