"""This room spoils valid frames: bits, lengths, counts, pieces repeated or left out, two frames in one."""

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

Other = Callable[[], bytes]
"""Makes another valid frame, for whoever needs one."""

Spoil = Callable[[Random, bytearray, Other], None]
"""Changes a frame in place."""

EDGES: Final = (-1, 0, 1, -2, 127, 128, 255, 256, 2**15 - 1, 2**16 - 1, 2**31 - 1, -(2**31), 2**24, 1_000)


def bits(dice: Random, frame: bytearray, _other: Other) -> None:
    """A few bits, anywhere."""
    for _ in range(dice.choice((1, 1, 2, 8))):
        if frame:
            frame[dice.randrange(len(frame))] ^= 1 << dice.randrange(8)


def number(dice: Random, frame: bytearray, _other: Other) -> None:
    """What stands somewhere becomes an edge: a length, a count, an id."""
    size, layout = dice.choice(((1, ">B"), (2, ">H"), (4, ">I"), (8, ">Q")))
    if len(frame) >= size:
        edge = dice.choice(EDGES) & (2 ** (8 * size) - 1)
        struct.pack_into(layout, frame, dice.randrange(len(frame) - size + 1), edge)


def varint(dice: Random, frame: bytearray, _other: Other) -> None:
    """One byte becomes a number of up to ten."""
    place = dice.randrange(len(frame) + 1)
    end = b"\x7f" if dice.random() < 0.5 else b"\x01"
    frame[place : place + 1] = b"\xff" * dice.choice((1, 2, 4, 5, 9, 10, 64)) + end


def cut(dice: Random, frame: bytearray, _other: Other) -> None:
    """The end is missing."""
    del frame[dice.randrange(len(frame) + 1) :]


def hole(dice: Random, frame: bytearray, _other: Other) -> None:
    """A piece is missing."""
    place = dice.randrange(len(frame) + 1)
    del frame[place : place + dice.choice((1, 2, 4, 8, 30))]


def again(dice: Random, frame: bytearray, _other: Other) -> None:
    """A piece stands there many times: fields, elements, tags."""
    place = dice.randrange(len(frame) + 1)
    piece = frame[place : place + dice.choice((1, 2, 4, 16, 60))]
    frame[place:place] = piece * dice.choice((1, 2, 10, 300))


def rubbish(dice: Random, frame: bytearray, _other: Other) -> None:
    """Bytes that mean nothing, inside or behind."""
    place = dice.choice((dice.randrange(len(frame) + 1), len(frame)))
    frame[place:place] = dice.randbytes(dice.choice((1, 4, 40, 2_000)))


def splice(dice: Random, frame: bytearray, other: Other) -> None:
    """It begins as one frame and ends as another."""
    end = other()
    frame[dice.randrange(len(frame) + 1) :] = end[dice.randrange(len(end) + 1) :]


def inside(dice: Random, frame: bytearray, other: Other) -> None:
    """The other frame lies within it."""
    place = dice.randrange(len(frame) + 1)
    frame[place:place] = other()


EVERYWHERE: Sequence[Spoil] = (bits, bits, number, number, varint, cut, hole, again, rubbish, splice, inside)


def spoilt(dice: Random, frame: bytes, other: Other, ways: Sequence[Spoil] = EVERYWHERE) -> bytes:
    """The frame after one way, seldom after two or three."""
    made = bytearray(frame)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        dice.choice(ways)(dice, made, other)
    return bytes(made)


# --- Kafka -------------------------------------------------------------------------------------------------


def version(dice: Random, frame: bytearray, _other: Other) -> None:
    """The body of one version behind the header of another, or of another request."""
    if len(frame) >= 4:
        place = dice.choice((0, 2))
        struct.pack_into(">h", frame, place, dice.choice((*range(20), 22, 23, 36, 42, 47, 60, 68, -1)))


KAFKA: Sequence[Spoil] = (*EVERYWHERE, version)


def spoilt_kafka(dice: Random, frame: bytes, other: Other) -> bytes:
    """A Kafka frame, spoilt; its own length is made right again, in most cases, so that its body is read."""
    kind = dice.random()
    if kind < 0.25:
        return frame
    if kind < 0.33:
        return spoilt(dice, frame, other)
    payload = spoilt(dice, frame[4:], lambda: other()[4:], KAFKA)
    return struct.pack(">i", len(payload)) + payload
