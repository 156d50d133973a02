"""This room reads and writes Kafka's variable-length numbers."""

from muster.kafkawire.errors import MalformedFrame
from muster.kafkawire.framing import Buffer


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned number of at most 32 bits and the position behind it. Raises MalformedFrame."""
    if position < len(buffer) and buffer[position] < 0x80:
        return buffer[position], position + 1
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(buffer):
            raise MalformedFrame("the frame ends inside a number")
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedFrame("a number of more than 32 bits")


def uvarint(value: int) -> bytes:
    """`value` as an unsigned varint."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
