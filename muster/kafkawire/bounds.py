"""This room walks a body before kio reads it, so that no length in it promises more than its frame holds.

kio's native reader reserves memory for an array on the array's own word: a frame of twenty bytes that
promises two billion topics aborts the whole process, and no exception tells. So every body is walked
first, by the same schema, without reserving anything.
"""

import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from muster.kafkawire.errors import MalformedFrame
from muster.kafkawire.framing import Buffer
from muster.kafkawire.numbers import read_uvarint

Step = Callable[[Buffer, int], int]
"""Takes a position, returns the position behind what lies there. Raises MalformedFrame, struct.error."""

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


def end_of(entity: Any, frame: Buffer, start: int) -> int:
    """The position behind the `entity` (kio's class) that begins at `start`. Raises MalformedFrame."""
    try:
        end = _entity(entity)(frame, start)
    except struct.error as error:
        raise MalformedFrame(f"the frame ends inside {entity.__name__}") from error
    if end > len(frame):
        raise MalformedFrame(f"{entity.__name__} ends behind its frame")
    return end


@cache
def _entity(entity: Any) -> Step:
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
    if fixed:
        steps.append(_skip(fixed))
    if flexible:
        steps.append(_tags(tagged))

    def walk(frame: Buffer, position: int) -> int:
        for step in steps:
            position = step(frame, position)
        return position

    return walk


def _as_step(step: int | Step) -> Step:
    return _skip(step) if isinstance(step, int) else step


def _skip(size: int) -> Step:
    return lambda _frame, position: position + size


def _field(annotation: Any, kafka_type: str | None, flexible: bool) -> int | Step:
    """What a field takes: a number of bytes if that is fixed, else how to walk it."""
    origin = get_origin(annotation)
    if origin in (UnionType, Union):
        (inner,) = (kind for kind in get_args(annotation) if kind is not NoneType)
        if is_dataclass(inner):
            raise TypeError("nullable structs occur in no request that is served")
        return _field(inner, kafka_type, flexible)
    if origin is tuple:
        return _array(_as_step(_field(get_args(annotation)[0], kafka_type, flexible)), flexible)
    if is_dataclass(annotation):
        nested: Any = annotation
        return _entity(nested)
    if kafka_type in ("string", "bytes", "records"):
        return _sized(wide=kafka_type != "string", flexible=flexible)
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


def _sized(*, wide: bool, flexible: bool) -> Step:
    def walk(frame: Buffer, position: int) -> int:
        length, position = _length(frame, position, wide=wide, flexible=flexible)
        return position + max(length, 0)

    return walk


def _array(element: Step, flexible: bool) -> Step:
    """Each element takes at least one byte, so a count above the bytes that are left is a lie."""

    def walk(frame: Buffer, position: int) -> int:
        count, position = _length(frame, position, wide=True, flexible=flexible)
        end = len(frame)
        for _ in range(count):
            position = element(frame, position)
            if position > end:
                raise MalformedFrame("an array ends behind its frame")
        return position

    return walk


def _tags(known: dict[int, Step]) -> Step:
    def walk(frame: Buffer, position: int) -> int:
        count, position = read_uvarint(frame, position)
        for _ in range(count):
            tag, position = read_uvarint(frame, position)
            size, position = read_uvarint(frame, position)
            end = position + size
            if end > len(frame):
                raise MalformedFrame("a tagged field ends behind the frame")
            if tag in known and known[tag](frame, position) != end:
                raise MalformedFrame(f"tagged field {tag} is not as long as it says")
            position = end
        return position

    return walk
