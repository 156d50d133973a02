"""This room writes the fields of a frame by hand, as flexible versions hold them or as older ones do."""

import struct
from typing import Final

from muster.kafkawire.numbers import uvarint

NO_TAGS: Final = b"\0"
"""Behind each structure of a flexible version."""
NOT_THROTTLED: Final = bytes(4)
"""`throttle_time_ms`."""

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


def text(value: str | None, flexible: bool) -> bytes:
    """A string, or null. Raises struct.error for one that an older version cannot hold."""
    if value is None:
        return b"\0" if flexible else b"\xff\xff"
    encoded = value.encode()
    size = len(encoded)
    if not flexible:
        return _SHORT.pack(size) + encoded
    return uvarint(size + 1) + encoded


def octets(value: bytes, flexible: bool) -> bytes:
    """Bytes, never null."""
    return (uvarint(len(value) + 1) if flexible else _INT.pack(len(value))) + value


def count(size: int, flexible: bool) -> bytes:
    """The length of an array."""
    return uvarint(size + 1) if flexible else _INT.pack(size)
