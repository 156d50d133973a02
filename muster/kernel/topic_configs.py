"""This room names the configs of a topic: key, kind, bounds, what an unset one means, and the floor."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"
CLEANUP_POLICY: Final = "cleanup.policy"
COMPRESSION_TYPE: Final = "compression.type"
RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
SEGMENT_BYTES: Final = "segment.bytes"
MAX_MESSAGE_BYTES: Final = "max.message.bytes"

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
MIB: Final = 1024 * 1024

_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")


class BadConfig(ValueError):
    """A key that is none here, or a value outside its bounds; the text names both."""


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A number from `least` to `most`, both allowed."""

    least: int
    most: int

    def admits(self, text: str) -> bool:
        return bool(_WHOLE_NUMBER.fullmatch(text)) and self.least <= int(text) <= self.most

    def __str__(self) -> str:
        return f"a whole number from {self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]

    def admits(self, text: str) -> bool:
        return text in self.words

    def __str__(self) -> str:
        return " or ".join(self.words)


KINDS: Final[Mapping[str, WholeNumber | OneOf]] = MappingProxyType(
    {
        MIN_INSYNC_REPLICAS: WholeNumber(1, INT32_MAX),
        UNCLEAN_LEADER_ELECTION: OneOf(("true", "false")),
        CLEANUP_POLICY: OneOf(("delete",)),
        COMPRESSION_TYPE: OneOf(("producer",)),
        RETENTION_MS: WholeNumber(-1, INT64_MAX),
        RETENTION_BYTES: WholeNumber(-1, INT64_MAX),
        SEGMENT_BYTES: WholeNumber(MIB, INT32_MAX),
        MAX_MESSAGE_BYTES: WholeNumber(0, INT32_MAX),
    }
)
"""What brokers act on, with the bounds of Kafka 4 (KIP-1030 for segments): nothing is compacted or compressed
anew, so nothing else is promised. −1: without a limit."""


def checked(key: str, text: str | None) -> str:
    """`text` as it is stored under `key`. Raises BadConfig."""
    kind = KINDS.get(key)
    if kind is None:
        raise BadConfig(f"{key} is not a config of a topic here")
    if text is None or not kind.admits(text):
        raise BadConfig(f"{text!r} is no value of {key}, which takes {kind}")
    return text


def number(configs: Mapping[str, str], key: str, default: int) -> int:
    """What is set under `key`; `default` if nothing is, or if an older release let something else in."""
    text = configs.get(key)
    return int(text) if text is not None and _WHOLE_NUMBER.fullmatch(text) else default


def flag(configs: Mapping[str, str], key: str, default: bool) -> bool:
    """What is set under `key`, true or false; `default` if nothing is."""
    text = configs.get(key)
    return default if text is None else text == "true"


def floor(min_insync_replicas: int, replica_count: int) -> int:
    """The floor of an ISR: nobody is taken out of it when fewer members would remain (replication.md 1)."""
    return min(min_insync_replicas, replica_count)
