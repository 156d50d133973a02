"""This room words what became of each partition, topic or resource of a request: an error, and why.

By hand, as of ten thousand partitions kio's writer holds the loop for a twentieth of a second.
"""

import struct
from collections.abc import Collection, Iterable
from typing import Final
from uuid import UUID

from muster.kafkawire.api_table import ApiKey, is_flexible, shortened
from muster.kafkawire.fields import NO_TAGS, NOT_THROTTLED, count, text
from muster.kernel.error_codes import ErrorCode

_PLACE: Final = struct.Struct(">ih")
_ERROR: Final = struct.Struct(">h")
_KIND: Final = struct.Struct(">b")
_NO_ID: Final = bytes(16)
_DELETED_IDS_SINCE: Final = 6
_DELETED_WHY_SINCE: Final = 5

Outcome = tuple[int, ErrorCode, str]
"""A partition, its error, and why: no longer than other answers tell it, and as null where it is empty."""


def worded_outcomes(topics: Collection[tuple[str, Collection[Outcome]]], flexible: bool) -> bytes:
    """The array of topics with their partitions, as ElectLeaders and AlterPartitionReassignments have it."""
    tags = NO_TAGS if flexible else b""
    whys: dict[str, bytes] = {}
    parts = [count(len(topics), flexible)]
    for name, outcomes in topics:
        parts += text(name, flexible), count(len(outcomes), flexible)
        parts += _places(outcomes, flexible, whys)
        parts.append(tags)
    return b"".join(parts)


def _places(outcomes: Iterable[Outcome], flexible: bool, whys: dict[str, bytes]) -> Iterable[bytes]:
    """`whys`: texts as they are worded; mostly thousands are told the same."""
    tags = NO_TAGS if flexible else b""
    for number, error, why in outcomes:
        worded = whys.get(why)
        if worded is None:
            worded = whys[why] = text(shortened(why) or None, flexible) + tags
        yield _PLACE.pack(number, error) + worded


def grown_topics(version: int, topics: Collection[tuple[str, ErrorCode, str]]) -> bytes:
    """The body of CreatePartitions: of each topic its name, its error, and why."""
    flexible = is_flexible(ApiKey.CREATE_PARTITIONS, version)
    whys = _Whys(flexible)
    return _whole(
        (text(name, flexible) + whys.of(error, why) for name, error, why in topics), topics, flexible
    )


def deleted_topics(version: int, topics: Collection[tuple[str | None, UUID | None, ErrorCode, str]]) -> bytes:
    """The body of DeleteTopics: of each topic its name, if anybody knows it, its id, its error, and why."""
    flexible = is_flexible(ApiKey.DELETE_TOPICS, version)
    whys = _Whys(flexible, is_told=version >= _DELETED_WHY_SINCE)
    ids = version >= _DELETED_IDS_SINCE
    told = (
        text(name, flexible)
        + ((topic_id.bytes if topic_id else _NO_ID) if ids else b"")
        + whys.of(error, why)
        for name, topic_id, error, why in topics
    )
    return _whole(told, topics, flexible)


def altered_configs(
    api_key: int, version: int, resources: Collection[tuple[int, str, ErrorCode, str]]
) -> bytes:
    """The body of AlterConfigs or IncrementalAlterConfigs: of each resource its error, type and name."""
    flexible = is_flexible(api_key, version)
    whys, tags = _Whys(flexible, is_last=False), NO_TAGS if flexible else b""
    told = (
        whys.of(error, why) + _KIND.pack(kind) + text(name, flexible) + tags
        for kind, name, error, why in resources
    )
    return _whole(told, resources, flexible)


class _Whys:
    """An error and why, as bytes: mostly thousands are told the same."""

    def __init__(self, flexible: bool, *, is_told: bool = True, is_last: bool = True) -> None:
        """`is_told`: the version has a place for why; `is_last`: nothing follows in the structure."""
        self._flexible = flexible
        self._is_told = is_told
        self._tags = NO_TAGS if flexible and is_last else b""
        self._worded: dict[tuple[ErrorCode, str], bytes] = {}

    def of(self, error: ErrorCode, why: str) -> bytes:
        worded = self._worded.get((error, why))
        if worded is None:
            told = text(shortened(why) or None, self._flexible) if self._is_told else b""
            worded = self._worded[error, why] = _ERROR.pack(error) + told + self._tags
        return worded


def _whole(told: Iterable[bytes], each: Collection[object], flexible: bool) -> bytes:
    return b"".join((NOT_THROTTLED, count(len(each), flexible), *told, NO_TAGS if flexible else b""))
