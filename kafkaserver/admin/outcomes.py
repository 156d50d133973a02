"""This room words what became of each partition of a request: an error, and why.

By hand, as of ten thousand partitions kio's writer holds the loop for a twentieth of a second.
"""

import struct
from collections.abc import Collection, Iterable
from typing import Final

from muster.kafkawire.api_table import shortened
from muster.kafkawire.fields import NO_TAGS, count, text
from muster.kernel.error_codes import ErrorCode

_PLACE: Final = struct.Struct(">ih")

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
