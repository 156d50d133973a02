"""This room turns member frames into JSON text and back; only the two typed errors leave it."""

from typing import TypeVar

import msgspec

from muster.kernel.error_codes import ErrorCode
from muster.messages.errors import (
    INVALID_PAYLOAD_CLOSE,
    MESSAGE_TOO_BIG_CLOSE,
    LocalMessageError,
    RemoteMessageError,
)
from muster.messages.member import Frame, FromMember, ToMember

FRAME_LIMIT_BYTES = 64 * 1024
"""What a door reads from a stranger."""

BYTES_PER_PARTITION = 48
"""An upper bound for one entry of offset_info; a member that owns much may say much."""

BYTES_PER_TOPIC = 400
"""An upper bound for what surrounds the entries of one topic: its name and its id."""

Message = TypeVar("Message")

_encoder = msgspec.json.Encoder()
_from_member: msgspec.json.Decoder[FromMember] = msgspec.json.Decoder(FromMember)
_to_member: msgspec.json.Decoder[ToMember] = msgspec.json.Decoder(ToMember)


def inbound_limit_bytes(owned_partitions: int, owned_topics: int) -> int:
    """The frame limit for a registered member: what a stranger may say, and its own partitions by topic."""
    return FRAME_LIMIT_BYTES + BYTES_PER_PARTITION * owned_partitions + BYTES_PER_TOPIC * owned_topics


def encode(message: Frame) -> bytes:
    """One JSON text frame. Raises LocalMessageError when the message holds what JSON cannot."""
    try:
        return _encoder.encode(message)
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalMessageError(f"cannot encode {type(message).__name__}: {error}") from error


def decode_from_member(frame: str | bytes, limit_bytes: int = FRAME_LIMIT_BYTES) -> FromMember:
    """A consumer's frame. Raises RemoteMessageError: FRAME_TOO_LARGE or MALFORMED_FRAME."""
    if len(frame) > limit_bytes:
        raise RemoteMessageError(
            f"frame of {len(frame)} bytes, the limit is {limit_bytes}",
            close_code=MESSAGE_TOO_BIG_CLOSE,
            error_code=ErrorCode.FRAME_TOO_LARGE,
        )
    return _decode(_from_member, frame)


def decode_to_member(frame: str | bytes) -> ToMember:
    """A coordinator's frame; its size is the transport's affair. Raises RemoteMessageError."""
    return _decode(_to_member, frame)


def _decode(decoder: msgspec.json.Decoder[Message], frame: str | bytes) -> Message:
    try:
        return decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise RemoteMessageError(
            f"malformed frame: {error}",
            close_code=INVALID_PAYLOAD_CLOSE,
            error_code=ErrorCode.MALFORMED_FRAME,
        ) from error
