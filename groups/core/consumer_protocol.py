"""This room reads and writes what Kafka's consumers put into the opaque bytes of their groups.

The protocol type `consumer` has two messages, of versions 0 to 3: what a member subscribes to, and what it
was assigned. A Kafka broker never decodes them; here they are read for pages and for offsets that nobody
needs any more, and written for tools that ask about native groups. What cannot be read is None.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence

CONSUMER = "consumer"
"""The protocol type of groups whose bytes are these."""

NAME_LENGTH_MAX = 249
"""Kafka's bound for a topic's name; a longer one is no topic."""

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


class _Unreadable(Exception):
    """Not what Kafka's consumers write."""


class _Reader:
    """Reads from the front; every length is compared with what is there before anything is made of it."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._place = 0

    def short(self) -> int:
        return int(_SHORT.unpack(self._take(2))[0])

    def count(self, least_bytes_each: int) -> int:
        """The length of an array; of one that is null, 0."""
        count = int(_INT.unpack(self._take(4))[0])
        if count > (len(self._payload) - self._place) // least_bytes_each:
            raise _Unreadable
        return max(0, count)

    def topic(self) -> str:
        length = self.short()
        if not 0 < length <= NAME_LENGTH_MAX:
            raise _Unreadable
        try:
            name = self._take(length).decode()
        except UnicodeDecodeError as problem:
            raise _Unreadable from problem
        if "\0" in name:
            raise _Unreadable
        return name

    def numbers(self) -> tuple[int, ...]:
        count = self.count(4)
        return struct.unpack(f">{count}i", self._take(4 * count))

    def _take(self, length: int) -> bytes:
        begin, self._place = self._place, self._place + length
        if self._place > len(self._payload):
            raise _Unreadable
        return self._payload[begin : self._place]


def assigned_partitions(assignment: bytes) -> Mapping[str, Sequence[int]] | None:
    """The partition numbers by topic; None if these bytes are no assignment, empty ones included.

    Versions above 3 are read as 3, as Kafka's own consumers do; what follows is the assignor's own.
    """
    reader = _Reader(assignment)
    found: dict[str, set[int]] = {}
    try:
        if reader.short() < 0:
            return None
        for _ in range(reader.count(6)):
            found.setdefault(reader.topic(), set()).update(reader.numbers())
    except _Unreadable:
        return None
    if any(number < 0 for numbers in found.values() for number in numbers):
        return None
    return {topic: sorted(numbers) for topic, numbers in found.items() if numbers}


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics that a member wants; None if these bytes are no subscription."""
    reader = _Reader(metadata)
    try:
        if reader.short() < 0:
            return None
        return frozenset(reader.topic() for _ in range(reader.count(2)))
    except _Unreadable:
        return None


def subscription(topics: Iterable[str]) -> bytes:
    """What a consumer of these topics would say, in version 0, which everybody reads."""
    names = sorted(topics)
    return b"".join((_SHORT.pack(0), _INT.pack(len(names)), *map(_text, names), _INT.pack(-1)))


def assignment(partitions: Mapping[str, Iterable[int]]) -> bytes:
    """What a leader would give for these partitions by topic, in version 0."""
    parts = [_SHORT.pack(0), _INT.pack(len(partitions))]
    for topic in sorted(partitions):
        numbers = sorted(partitions[topic])
        parts += [_text(topic), struct.pack(f">{len(numbers) + 1}i", len(numbers), *numbers)]
    return b"".join((*parts, _INT.pack(-1)))


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _SHORT.pack(len(encoded)) + encoded
