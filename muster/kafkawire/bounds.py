"""This room walks a body before kio reads it, so that no length in it promises more than its frame holds.

kio's native reader reserves memory for an array on the array's own word: a frame of twenty bytes that
promises two billion topics aborts the whole process, and no exception tells. So every body is walked
first, by the same schema, without reserving anything. The walk counts the elements of all arrays, because
each becomes objects and work, and refuses null where the schema knows none: kio would hand it on.

Tagged fields that the schema does not know are Kafka's way to say more in a version that is old: readers skip
them. kio refuses them, so the walk says what is to be left out before kio reads.
"""

import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin

from muster.kafkawire.errors import FrameTooLarge, MalformedFrame
from muster.kafkawire.framing import Buffer
from muster.kafkawire.numbers import read_uvarint, uvarint

UNLIMITED: Final = 2**63
"""Elements of an answer: whoever asked for it bounds it by its bytes."""


MOST_TAGS: Final = 10_000
"""Tagged fields in all places of one frame: clients send none or a few, and each is a step of the loop."""


class Edit(NamedTuple):
    """Bytes of a frame, from `start` up to `end`, and what is to be read in their place."""

    start: int
    end: int
    instead: bytes


class Elements:
    """How many elements a body may still have; each of its outermost arrays counts as `weight` of them.

    `edits` is what is to be left out of the body, not in the order of the places, `left_out` how many bytes.
    """

    __slots__ = ("edits", "left", "left_out", "tags", "weight")

    def __init__(self, limit: int, weight: int = 1) -> None:
        self.left = limit
        self.weight = weight
        self.edits: list[Edit] = []
        self.left_out = 0
        self.tags = 0

    def take(self, count: int) -> None:
        """Count the elements of one array. Raises FrameTooLarge."""
        self.left -= count * self.weight
        if self.left < 0:
            raise FrameTooLarge(f"{-self.left} elements too many")

    def pass_over(self, count: int) -> None:
        """Count tagged fields. Raises FrameTooLarge."""
        self.tags += count
        if self.tags > MOST_TAGS:
            raise FrameTooLarge(f"{self.tags} tagged fields")

    def edit(self, start: int, end: int, instead: bytes = b"") -> None:
        """Read this in place of what lies there."""
        self.edits.append(Edit(start, end, instead))
        self.left_out += end - start - len(instead)


Step = Callable[[Buffer, int, Elements], int]
"""Takes a position, returns the position behind what lies there.

Raises MalformedFrame, FrameTooLarge, struct.error.
"""

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")

_FIXED_BYTES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "error_code": 2,
    "int32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "datetime_i64": 8,
    "timedelta_i64": 8,
    "float64": 8,
    "uuid": 16,
}


def end_of(
    entity: Any, frame: Buffer, start: int, most_elements: int = UNLIMITED, weight: int = 1
) -> tuple[int, list[Edit]]:
    """The position behind the `entity` (kio's class) that begins at `start`, and what kio cannot read of it.

    Raises MalformedFrame, and FrameTooLarge for more than `most_elements` in all its arrays together, where
    one of an outermost array counts as `weight` of them.
    """
    elements = Elements(most_elements, weight)
    try:
        end = _as_step(walk_of(entity))(frame, start, elements)
    except struct.error as error:
        raise MalformedFrame(f"the frame ends inside {entity.__name__}") from error
    if end > len(frame):
        raise MalformedFrame(f"{entity.__name__} ends behind its frame")
    return end, elements.edits


def edited(frame: Buffer, start: int, end: int, edits: list[Edit]) -> bytes:
    """What lies from `start` up to `end`, with these edits made."""
    pieces: list[Buffer] = []
    for edit in sorted(edits):
        pieces += frame[start : edit.start], edit.instead
        start = edit.end
    return b"".join((*pieces, frame[start:end]))


@cache
def walk_of(entity: Any) -> int | Step:
    """How kio's class is walked: its size if that is fixed. Raises TypeError for what cannot be walked."""
    flexible: bool = entity.__flexible__
    steps: list[Step] = []
    tagged: dict[int, Step] = {}
    fixed = 0
    for field in fields(entity):
        step = _field(field.type, field.metadata.get("kafka_type"), flexible)
        tag = field.metadata.get("tag")
        if tag is not None:
            tagged[tag] = _as_step(step)
        elif isinstance(step, int):
            fixed += step
        else:
            if fixed:
                steps.append(_skip(fixed))
                fixed = 0
            steps.append(step)
    if flexible:
        steps += [_skip(fixed)] if fixed else []
        steps.append(_tags(tagged))
    elif not steps:
        return fixed
    elif fixed:
        steps.append(_skip(fixed))

    def walk(frame: Buffer, position: int, elements: Elements) -> int:
        for step in steps:
            position = step(frame, position, elements)
        return position

    return walk


def _as_step(step: int | Step) -> Step:
    return _skip(step) if isinstance(step, int) else step


def _skip(size: int) -> Step:
    return lambda _frame, position, _elements: position + size


def _field(annotation: Any, kafka_type: str | None, flexible: bool, nullable: bool = False) -> int | Step:
    """What a field takes: a number of bytes if that is fixed, else how to walk it."""
    origin = get_origin(annotation)
    if origin in (UnionType, Union):
        (inner,) = (kind for kind in get_args(annotation) if kind is not NoneType)
        if is_dataclass(inner):
            raise TypeError("nullable structs occur in no request that is served")
        return _field(inner, kafka_type, flexible, nullable=True)
    if origin is tuple:
        return _array(_field(get_args(annotation)[0], kafka_type, flexible), flexible, nullable)
    if is_dataclass(annotation):
        nested: Any = annotation
        return walk_of(nested)
    if kafka_type in ("string", "bytes", "records"):
        return _sized(wide=kafka_type != "string", flexible=flexible, nullable=nullable)
    return _FIXED_BYTES[str(kafka_type)]


def _length(frame: Buffer, position: int, *, wide: bool, flexible: bool) -> tuple[int, int]:
    """(length, position behind it); -1 is null. Raises MalformedFrame if the frame holds less."""
    if flexible:
        length, position = read_uvarint(frame, position)
        length -= 1
    elif wide:
        length, position = _INT.unpack_from(frame, position)[0], position + 4
    else:
        length, position = _SHORT.unpack_from(frame, position)[0], position + 2
    if length < -1 or length > len(frame) - position:
        raise MalformedFrame(f"a length of {length} with {len(frame) - position} bytes left")
    return length, position


def _sized(*, wide: bool, flexible: bool, nullable: bool) -> Step:
    def walk(frame: Buffer, position: int, _elements: Elements) -> int:
        length, position = _length(frame, position, wide=wide, flexible=flexible)
        if length >= 0:
            return position + length
        if not nullable:
            raise MalformedFrame("null where the schema knows none")
        return position

    return walk


def _array(element: int | Step, flexible: bool, nullable: bool) -> Step:
    """Each element takes at least one byte, so a count above the bytes that are left is a lie."""

    def count_of(frame: Buffer, position: int, elements: Elements) -> tuple[int, int]:
        count, position = _length(frame, position, wide=True, flexible=flexible)
        if count >= 0:
            elements.take(count)
        elif not nullable:
            raise MalformedFrame("a null array where the schema knows none")
        return max(count, 0), position

    if isinstance(element, int):
        size = element

        def jump(frame: Buffer, position: int, elements: Elements) -> int:
            count, position = count_of(frame, position, elements)
            return position + count * size

        return jump
    step = element

    def walk(frame: Buffer, position: int, elements: Elements) -> int:
        count, position = count_of(frame, position, elements)
        end = len(frame)
        weight, elements.weight = elements.weight, 1
        for _ in range(count):
            position = step(frame, position, elements)
            if position > end:
                raise MalformedFrame("an array ends behind its frame")
        elements.weight = weight
        return position

    return walk


def _tags(known: dict[int, Step]) -> Step:
    def walk(frame: Buffer, position: int, elements: Elements) -> int:
        if position < len(frame) and frame[position] == 0:
            return position + 1
        begin = position
        count, first = read_uvarint(frame, position)
        position, kept = first, count
        elements.pass_over(count)
        for _ in range(count):
            field = position
            tag, size_at = read_uvarint(frame, position)
            size, position = read_uvarint(frame, size_at)
            end = position + size
            if end > len(frame):
                raise MalformedFrame("a tagged field ends behind the frame")
            if tag not in known:
                kept -= 1
                elements.edit(field, end)
            else:
                before = elements.left_out
                if known[tag](frame, position, elements) != end:
                    raise MalformedFrame(f"tagged field {tag} is not as long as it says")
                if shorter := elements.left_out - before:
                    elements.edit(size_at, position, uvarint(size - shorter))
            position = end
        if kept != count:
            elements.edit(begin, first, uvarint(kept))
        return position

    return walk
