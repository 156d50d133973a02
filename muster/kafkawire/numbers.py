"""This room reads and writes Kafka's variable-length numbers."""

from muster.kafkawire.errors import MalformedFrame
from muster.kafkawire.framing import Buffer

_SHIFTS = (7, 14, 21, 28)
"""Of the bytes behind the first."""

_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))
"""Most lengths are so short."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned number of at most 32 bits and the position behind it. Raises MalformedFrame."""
    try:
        value = buffer[position]
        if value < 0x80:
            return value, position + 1
        value &= 0x7F
        for shift in _SHIFTS:
            position += 1
            byte = buffer[position]
            if byte < 0x80:
                return value | byte << shift, position + 1
            value |= (byte & 0x7F) << shift
    except IndexError as error:
        raise MalformedFrame("the frame ends inside a number") from error
    raise MalformedFrame("a number of more than 32 bits")


def uvarint(value: int) -> bytes:
    """`value` as an unsigned varint."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
