"""This room reads Heartbeat requests by hand and words their answers once: they are most of what members say.

kio would make an object of each, after the frame was walked once to see that it may be read. The tests
compare this reader with kio's.
"""

import struct
from functools import cache
from typing import Final, NamedTuple

from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    build,
    encode_body,
    frame_reply,
    is_flexible,
    response_class,
    skip_tags,
)
from muster.kafkawire.errors import MalformedFrame
from muster.kafkawire.framing import Buffer
from muster.kafkawire.numbers import read_uvarint

_INSTANCE_SINCE: Final = 3
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")


class HeartbeatRequest(NamedTuple):
    """What a member says: in which group, which generation, who it is."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None


def read_heartbeat(header: RequestHeader, frame: Buffer) -> HeartbeatRequest:
    """The request in `frame`, versions 0 to 4. Raises MalformedFrame."""
    flexible = is_flexible(ApiKey.HEARTBEAT, header.api_version)
    try:
        group_id, position = _string(frame, header.body_start, flexible)
        generation = _INT.unpack_from(frame, position)[0]
        member_id, position = _string(frame, position + 4, flexible)
        instance_id = None
        if header.api_version >= _INSTANCE_SINCE:
            instance_id, position = _string(frame, position, flexible)
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedFrame(f"Heartbeat: {error}") from error
    if flexible:
        skip_tags(frame, position)
    if group_id is None or member_id is None:
        raise MalformedFrame("Heartbeat: null where the schema knows none")
    return HeartbeatRequest(group_id, generation, member_id, instance_id)


def _string(frame: Buffer, position: int, flexible: bool) -> tuple[str | None, int]:
    if flexible:
        length, position = read_uvarint(frame, position)
        length -= 1
    else:
        length, position = _SHORT.unpack_from(frame, position)[0], position + 2
    if length == -1:
        return None, position
    end = position + length
    if length < -1 or end > len(frame):
        raise MalformedFrame("Heartbeat: a text ends behind the frame")
    return str(frame[position:end], "utf-8"), end


def heartbeat_answer(version: int, correlation_id: int, error: int) -> bytes:
    """The whole frame that answers `error`."""
    before, behind = around_the_correlation_id(version, error)
    return before + _INT.pack(correlation_id) + behind


@cache
def around_the_correlation_id(version: int, error: int) -> tuple[bytes, bytes]:
    """What stands before and behind the correlation id in the answer `error`."""
    body = encode_body(build(response_class(ApiKey.HEARTBEAT, version), error_code=error))
    frame = frame_reply(ApiKey.HEARTBEAT, version, 0, body)
    return frame[: _INT.size], frame[2 * _INT.size :]
