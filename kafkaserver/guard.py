"""This room guards a Kafka door as its process was told: who must prove what, behind which certificate."""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes, token_urlsafe
from typing import Final

import structlog

from kafkaserver.callers import KafkaCaller, KnownCallers
from kafkaserver.newcomers import LookFor, Newcomers
from kafkaserver.sasl import SaslGate
from kafkaserver.server import KafkaServer
from kafkaserver.tls import Certificate
from muster.kernel.addresses import is_loopback
from muster.kernel.environment import SettingError
from muster.kernel.instants import Instant, elapsed_ms
from muster.kernel.scram import Verifier
from muster.kernel.security_protocols import protocol_of
from muster.messages.link.callers import CallerRow

SASL: Final = "MUSTER_KAFKA_SASL"
CERTIFICATE: Final = "MUSTER_KAFKA_TLS_CERTIFICATE"
KEY: Final = "MUSTER_KAFKA_TLS_KEY"
NEW: Final = "MUSTER_KAFKA_CALLERS_MAX_AGE_MS"
STANDING: Final = "MUSTER_KAFKA_CALLERS_MAX_AGE_STANDING_MS"
_KEY_BYTES: Final = 32

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Belief:
    """For how long the callers that were told last are believed though nobody confirms them; milliseconds.

    `new_ms`: whoever connects then has to come again. `standing_ms`: those who are in are hung up on then; 0:
    never.
    """

    new_ms: int = 3_600_000
    standing_ms: int = 86_400_000


class Guard:
    """What one process asks of Kafka clients, and who it lets in; nobody, until it was told who may."""

    def __init__(
        self, *, sasl: bool = False, certificate: Certificate | None = None, belief: Belief | None = None
    ) -> None:
        self.sasl = sasl
        self.certificate = certificate
        self._belief = belief or Belief()
        self._confirmed_at: Instant | None = None
        self.age_ms = 0
        """For how long nobody has confirmed the callers, as of the last watch."""
        self._has_hung_up = False
        self._was_fresh = True
        self._key = token_bytes(_KEY_BYTES)
        self._callers = KnownCallers(key=self._key)
        self._newcomers: Newcomers | None = None
        self.may_open = not sasl
        """False until it is known who may come in: a client that is refused gives up."""

    @property
    def protocol(self) -> str:
        """How clients must speak, by Kafka's word."""
        return protocol_of(sasl=self.sasl, tls=self.certificate is not None)

    @classmethod
    def of(cls, sasl: bool, chain: str, key: str, belief: Belief | None = None) -> "Guard":
        """As the settings of these names say. Raises SettingError."""
        if belief is not None and 0 < belief.standing_ms < belief.new_ms:
            raise SettingError(
                f"{STANDING} must not be below {NEW}; 0: connections that stand stay for ever."
            )
        if bool(chain) != bool(key):
            raise SettingError(f"{CERTIFICATE} and {KEY} belong together; set both or neither.")
        certificate = None
        if chain:
            try:
                certificate = Certificate(Path(chain), Path(key))
            except (OSError, ssl.SSLError) as error:
                raise SettingError(f"{CERTIFICATE}={chain} cannot be used: {error}.") from error
        return cls(sasl=sasl, certificate=certificate, belief=belief)

    def refuse_open_door(self, name: str, host: str) -> None:
        """Off loopback nobody may come in without saying who it is. Raises SettingError."""
        if not self.sasl and not is_loopback(host):
            raise SettingError(
                f"{name}={host}: a Kafka listener that others can reach needs {SASL}=1, and best a"
                f" certificate ({CERTIFICATE}); without it use 127.0.0.1 or [::1]."
            )

    def gate(self, peer: str) -> SaslGate | None:
        """What a new connection from host `peer` must pass; None: nothing."""
        if not self.sasl:
            return None
        plain = self.certificate is not None or is_loopback(peer)
        newcomer = None if self._newcomers is None else self._newcomers.at(peer, self.caller)
        return SaslGate(self, lambda: token_urlsafe(_KEY_BYTES), plain=plain, newcomer=newcomer)

    def wait_for_newcomers(self, look_for: LookFor | None = None) -> None:
        """Whoever connects from now on under a name that nobody bears waits for news before it is refused.

        Without `look_for` for the next push, which may be on its way.
        """
        self._newcomers = Newcomers(look_for)

    def verifier(self, mechanism: str, user: str) -> Verifier:
        """As it is known now, not as it was when the connection was made (sasl.Credentials)."""
        return self._callers.verifier(mechanism, user)

    def caller(self, user: str) -> KafkaCaller | None:
        """Who this user is now."""
        return self._callers.caller(user)

    def caller_of_token(self, user: str, presented: str) -> KafkaCaller | None:
        """Who shows this token, if it is good now."""
        return self._callers.caller_of_token(user, presented)

    @property
    def are_fresh(self) -> bool:
        """Whether somebody new is let in by what is known (sasl.Credentials)."""
        return self.age_ms <= self._belief.new_ms

    def confirmed(self, at: Instant) -> None:
        """What is known was true at this moment of the process's own clock."""
        self._confirmed_at = at

    def watch(self, now: Instant, *servers: KafkaServer) -> None:
        """To be called again and again: what nobody confirms is believed less and less, and of a certificate
        that was renewed, or cannot be read, is told though nobody connects.
        """
        if self.certificate is not None:
            self.certificate.read_again_if_changed()
        if not self.sasl or self._confirmed_at is None:
            return
        self.age_ms = elapsed_ms(self._confirmed_at, now)
        if self.are_fresh != self._was_fresh:
            self._was_fresh = self.are_fresh
            if self.are_fresh:
                log.info("kafka_callers_confirmed")
            else:
                log.error("kafka_callers_too_old", age_ms=self.age_ms, refused="new connections")
        if not 0 < self._belief.standing_ms < self.age_ms:
            self._has_hung_up = False
        elif not self._has_hung_up:
            self._has_hung_up = True
            log.error("kafka_callers_too_old", age_ms=self.age_ms, refused="all connections")
            for server in servers:
                server.hang_up_on_others(lambda _: False)

    def know(self, rows: Iterable[CallerRow], *servers: KafkaServer) -> None:
        """These may come in from now on; of those who are in, whoever may not any more is hung up on."""
        self._callers = callers = KnownCallers(rows, key=self._key)
        self.may_open = True
        if self.sasl:
            for server in servers:
                server.hang_up_on_others(callers.knows)
