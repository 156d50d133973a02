"""This room reads Produce requests in place, so that a megabyte of records is never copied to be read.

kio would hand the records out as new bytes; everything else it does (conformance E3, Produce 3 to 12).
The tests compare this reader with kio's.
"""

import struct
from typing import NamedTuple

from muster.kafkawire.api_table import SERVED, ApiKey, RequestHeader, is_flexible, skip_tags
from muster.kafkawire.bounds import Elements
from muster.kafkawire.errors import MalformedFrame
from muster.kafkawire.numbers import read_uvarint

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


class PartitionRecords(NamedTuple):
    """The records for one partition: a view into the frame, valid as long as the frame is."""

    topic: str
    partition: int
    records: memoryview | None


class ProduceRequest(NamedTuple):
    """A Produce request whose records are still in its frame."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    parts: list[PartitionRecords]


class _Cursor:
    """A place in a frame; reading moves it. Raises MalformedFrame at the frame's end."""

    __slots__ = ("elements", "flexible", "position", "view")

    def __init__(self, view: memoryview, position: int, flexible: bool) -> None:
        self.elements = Elements(SERVED[ApiKey.PRODUCE].limit_elements)
        self.view = view
        self.position = position
        self.flexible = flexible

    def int16(self) -> int:
        value: int = _SHORT.unpack_from(self.view, self.position)[0]
        self.position += 2
        return value

    def int32(self) -> int:
        value: int = _INT.unpack_from(self.view, self.position)[0]
        self.position += 4
        return value

    def _length(self, wide: bool) -> int:
        if self.flexible:
            length, self.position = read_uvarint(self.view, self.position)
            return length - 1
        return self.int32() if wide else self.int16()

    def array_size(self) -> int:
        """Number of elements; each takes at least one byte, so a larger number is a lie."""
        size = self._length(wide=True)
        if size < 0 or size > len(self.view) - self.position:
            raise MalformedFrame(f"an array of {size} elements")
        self.elements.take(size)
        return size

    def string(self) -> str | None:
        data = self._bytes(wide=False)
        return None if data is None else str(data, "utf-8")

    def records(self) -> memoryview | None:
        return self._bytes(wide=True)

    def _bytes(self, wide: bool) -> memoryview | None:
        length = self._length(wide)
        if length == -1:
            return None
        start = self.position
        self.position = start + length
        if length < 0 or self.position > len(self.view):
            raise MalformedFrame("a field ends behind the frame")
        return self.view[start : self.position]

    def tags(self) -> None:
        if self.flexible:
            self.position = skip_tags(self.view, self.position)


def read_produce(header: RequestHeader, frame: memoryview) -> ProduceRequest:
    """The request in `frame`, versions 3 to 12. Raises MalformedFrame, FrameTooLarge."""
    cursor = _Cursor(frame, header.body_start, is_flexible(header.api_key, header.api_version))
    try:
        transactional_id = cursor.string()
        acks = cursor.int16()
        timeout_ms = cursor.int32()
        parts: list[PartitionRecords] = []
        for _ in range(cursor.array_size()):
            topic = cursor.string()
            if topic is None:
                raise MalformedFrame("a topic without a name")
            for _ in range(cursor.array_size()):
                parts.append(PartitionRecords(topic, cursor.int32(), cursor.records()))
                cursor.tags()
            cursor.tags()
        cursor.tags()
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedFrame(f"Produce: {error}") from error
    return ProduceRequest(transactional_id, acks, timeout_ms, parts)
