"""This room names what a client quota is about: users and client ids, and the rates that hold for them.

Words are Kafka's (KIP-546). A user is a principal; where a door asks nobody who they are, it is ANONYMOUS.
"""

from typing import Final

USER: Final = "user"
CLIENT_ID: Final = "client-id"
ENTITY_TYPES: Final = (USER, CLIENT_ID)

DEFAULT: Final = ""
"""For whoever is not named; no user and no client id of a quota is empty."""

ANONYMOUS: Final = "ANONYMOUS"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)

NOT_OBEYED: Final = frozenset({"request_percentage", "controller_mutation_rate", "connection_creation_rate"})
"""Keys that Kafka has and nothing here obeys: refused by name."""

LARGEST_RATE: Final = 2**53 - 1
"""Bytes per second; what Kafka's wire, where rates are doubles, can say exactly."""

NAME_LENGTH: Final = 249


class BadQuota(ValueError):
    """Nobody can have this quota; the text says why."""


def checked_rate(key: str, value: float) -> int:
    """Bytes per second. Raises BadQuota for another key, and for what is no whole number above 0."""
    if key in NOT_OBEYED:
        raise BadQuota(f"{key} is not obeyed here; {' and '.join(KEYS)} are")
    if key not in KEYS:
        raise BadQuota(f"there is no quota {key!r}; there are {' and '.join(KEYS)}")
    if not 1 <= value <= LARGEST_RATE or value != int(value):
        raise BadQuota(f"{key} is a whole number of bytes per second from 1 to {LARGEST_RATE}")
    return int(value)


def checked_name(entity_type: str, name: str | None) -> str:
    """A user or client id as it is stored; None: the default. Raises BadQuota."""
    if entity_type not in ENTITY_TYPES:
        raise BadQuota(f"quotas are set for {' and '.join(ENTITY_TYPES)}, not for {entity_type!r}")
    if name is None:
        return DEFAULT
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise BadQuota(f"a {entity_type} has 1 to {NAME_LENGTH} printable characters")
    return name
