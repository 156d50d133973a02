"""This room cuts a stream of bytes into Kafka frames: a signed length of four bytes, then that many bytes.

A length is judged before anything is allocated for it.
"""

import struct

from muster.kafkawire.errors import FrameTooLarge, MalformedFrame

Buffer = bytes | bytearray | memoryview

LENGTH_BYTES = 4
DEFAULT_LIMIT_BYTES = 100 * 1024 * 1024
"""Kafka's `socket.request.max.bytes`."""

SMALLEST_REQUEST_BYTES = 8
"""Api key, version and correlation id."""

_LENGTH = struct.Struct(">i")
_TLS_BEGINS = 0x1603
"""A record of its handshake, of whichever version."""


def frame_bytes(buffer: Buffer, start: int, limit_bytes: int, smallest_bytes: int = 0) -> int:
    """The length of the frame whose prefix begins at `start`; the prefix itself is not counted.

    Raises FrameTooLarge for a negative length or one above `limit_bytes`, MalformedFrame for one
    below `smallest_bytes`.
    """
    length: int = _LENGTH.unpack_from(buffer, start)[0]
    if length < 0 or length > limit_bytes:
        hint = "; so TLS begins, which this listener does not speak" if length >> 16 == _TLS_BEGINS else ""
        raise FrameTooLarge(f"a frame of {length} bytes, the limit is {limit_bytes}{hint}")
    if length < smallest_bytes:
        raise MalformedFrame(f"a frame of {length} bytes cannot hold a header")
    return length
