"""This room reads the fields of one frame by hand, one after the other."""

import struct
from typing import Any

from muster.kafkawire.api_table import skip_tags
from muster.kafkawire.bounds import Elements
from muster.kafkawire.errors import MalformedFrame
from muster.kafkawire.numbers import read_uvarint

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


class Cursor:
    """A place in a frame; reading moves it. Raises MalformedFrame or struct.error at the frame's end.

    `limit_elements`: all arrays of the frame have no more elements together. Raises FrameTooLarge.
    """

    __slots__ = ("elements", "flexible", "position", "view")

    def __init__(self, view: memoryview, position: int, flexible: bool, limit_elements: int) -> None:
        self.elements = Elements(limit_elements)
        self.view = view
        self.position = position
        self.flexible = flexible

    def int16(self) -> int:
        """Two bytes."""
        value: int = _SHORT.unpack_from(self.view, self.position)[0]
        self.position += 2
        return value

    def int32(self) -> int:
        """Four bytes."""
        value: int = _INT.unpack_from(self.view, self.position)[0]
        self.position += 4
        return value

    def int64(self) -> int:
        """Eight bytes."""
        value: int = _LONG.unpack_from(self.view, self.position)[0]
        self.position += 8
        return value

    def fields(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Fields of a fixed size, together."""
        values = layout.unpack_from(self.view, self.position)
        self.position += layout.size
        return values

    def octets(self, size: int) -> memoryview:
        """A view of so many bytes."""
        start = self.position
        self.position = start + size
        if self.position > len(self.view):
            raise MalformedFrame("a field ends behind the frame")
        return self.view[start : self.position]

    def uvarint(self) -> int:
        """An unsigned number of variable length."""
        value, self.position = read_uvarint(self.view, self.position)
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
        """A text, or null. Raises UnicodeDecodeError, too."""
        view, position = self.view, self.position
        if self.flexible and position < len(view) and 0 < view[position] < 0x80:
            # As good as every text: its length, and one for the length, in one byte.
            self.position = position + view[position]
            if self.position > len(view):
                raise MalformedFrame("a field ends behind the frame")
            return str(view[position + 1 : self.position], "utf-8")
        data = self._bytes(wide=False)
        return None if data is None else str(data, "utf-8")

    def text(self) -> str:
        """A text where the schema knows no null."""
        found = self.string()
        if found is None:
            raise MalformedFrame("null where the schema knows none")
        return found

    def records(self) -> memoryview | None:
        """A view of bytes, or null."""
        return self._bytes(wide=True)

    def _bytes(self, wide: bool) -> memoryview | None:
        length = self._length(wide)
        if length == -1:
            return None
        if length < 0:
            raise MalformedFrame(f"a field of {length} bytes")
        return self.octets(length)

    def tags(self) -> None:
        """Skip what flexible versions put behind a part. Raises FrameTooLarge for too much of it."""
        if not self.flexible:
            return
        view, position = self.view, self.position
        if position < len(view) and not view[position]:
            self.position = position + 1
            return
        count, _ = read_uvarint(view, position)
        self.elements.pass_over(count)
        self.position = skip_tags(view, position)
