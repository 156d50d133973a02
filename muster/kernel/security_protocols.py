"""This room names how a Kafka listener may be spoken to, by Kafka's words."""

from typing import Final

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)


def protocol_of(*, sasl: bool, tls: bool) -> str:
    """The word for a listener that asks for a proof, that stands behind TLS, for both or for neither."""
    return SECURITY_PROTOCOLS[2 * sasl + tls]
