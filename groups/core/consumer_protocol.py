"""This room reads and writes what Kafka's consumers put into the opaque bytes of their groups.

The protocol type `consumer` has two messages, of versions 0 to 3: what a member subscribes to, and what it
was assigned. A Kafka broker never decodes them; here they are read for pages and for offsets that nobody
needs any more, and written for tools that ask about native groups. What cannot be read is None.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

CONSUMER = "consumer"
"""The protocol type of groups whose bytes are these."""

NAME_LENGTH_MAX = 249
"""Kafka's bound for a topic's name; a longer one is no topic."""

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member says to its strategy. `owned` and `generation` (−1: none) are what it held when it asked.

    `user_data` is how many bytes of the strategy's own follow the topics; `rack` is empty if it names none.
    """

    version: int
    topics: Sequence[str]
    user_data: int = 0
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation: int = -1
    rack: str = ""


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

    def partitions(self) -> dict[str, set[int]]:
        """Numbers by topic, and not below zero."""
        found: dict[str, set[int]] = {}
        for _ in range(self.count(6)):
            found.setdefault(self.topic(), set()).update(self.numbers())
        if any(number < 0 for numbers in found.values() for number in numbers):
            raise _Unreadable
        return found

    def skipped(self) -> int:
        """How many bytes the following have that belong to somebody else; null counts as none."""
        size = max(0, int(_INT.unpack(self._take(4))[0]))
        self._take(size)
        return size

    def generation(self) -> int:
        return int(_INT.unpack(self._take(4))[0])

    def rack(self) -> str:
        """Null counts as none."""
        try:
            return self._take(max(0, self.short())).decode()
        except UnicodeDecodeError as problem:
            raise _Unreadable from problem

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
    try:
        return None if reader.short() < 0 else _in_order(reader.partitions())
    except _Unreadable:
        return None


def stated_subscription(metadata: bytes) -> Subscription | None:
    """What a consumer subscribes to; None if these bytes are none of a consumer's."""
    reader = _Reader(metadata)
    try:
        version = reader.short()
        if version < 0:
            return None
        topics = sorted({reader.topic() for _ in range(reader.count(2))})
        return Subscription(
            version,
            topics,
            reader.skipped(),
            _in_order(reader.partitions()) if version >= 1 else {},
            reader.generation() if version >= 2 else -1,
            reader.rack() if version >= 3 else "",
        )
    except _Unreadable:
        return None


def _in_order(partitions: Mapping[str, set[int]]) -> dict[str, Sequence[int]]:
    return {topic: sorted(numbers) for topic, numbers in partitions.items() if numbers}


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
