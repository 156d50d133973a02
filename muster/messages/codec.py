"""This room turns frames of members and of brokers into JSON text and back; only typed errors leave it."""

from typing import TypeVar

import msgspec

from muster.kernel.error_codes import ErrorCode
from muster.messages.errors import (
    INVALID_PAYLOAD_CLOSE,
    MESSAGE_TOO_BIG_CLOSE,
    LocalMessageError,
    RemoteMessageError,
)
from muster.messages.limits import (
    FRAME_LIMIT_BYTES,
    MAX_FRAME_FROM_BROKER_BYTES,
    MAX_FRAME_TO_BROKER_BYTES,
    bytes_of,
)
from muster.messages.link.from_broker import FromBroker
from muster.messages.link.rows import AlikePartitions
from muster.messages.link.to_broker import Changes, ToBroker
from muster.messages.member import Frame, FromMember, ToMember

Message = TypeVar("Message")

_encoder = msgspec.json.Encoder()
_from_member: msgspec.json.Decoder[FromMember] = msgspec.json.Decoder(FromMember)
_to_member: msgspec.json.Decoder[ToMember] = msgspec.json.Decoder(ToMember)
_from_broker: msgspec.json.Decoder[FromBroker] = msgspec.json.Decoder(FromBroker)
_to_broker: msgspec.json.Decoder[ToBroker] = msgspec.json.Decoder(ToBroker)


def encode(message: Frame | FromBroker | ToBroker | AlikePartitions) -> bytes:
    """One JSON text frame, or rows of one. Raises LocalMessageError when it holds what JSON cannot."""
    try:
        return _encoder.encode(message)
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalMessageError(f"cannot encode {type(message).__name__}: {error}") from error


class SharedTexts:
    """Makes text of what one turn says to all brokers; what their frames have in common it encodes once.

    A death changes thousands of rows, and each of thirty brokers is told of all of them: of its own replicas
    first. Nothing that was given here may be changed as long as this is used.
    """

    def __init__(self) -> None:
        # By identity, as what has it is kept: to compare rows costs as much as to encode them.
        self._frames: dict[int, tuple[ToBroker, bytes]] = {}
        self._rows: dict[int, bytes] = {}
        self._kept: list[AlikePartitions] = []

    def encode(self, frame: ToBroker) -> bytes:
        """As `encode`. Raises LocalMessageError."""
        known = self._frames.get(id(frame))
        if known is None:
            shared = self._sharing(frame) if isinstance(frame, Changes) else frame
            known = self._frames[id(frame)] = frame, encode(shared)
        return known[1]

    def _sharing(self, frame: Changes) -> Changes:
        return msgspec.structs.replace(
            frame,
            leader_and_isr=self._array(frame.leader_and_isr),
            stop_replica=self._array(frame.stop_replica),
            partitions=self._array(frame.partitions),
        )

    def _array(self, rows: tuple[AlikePartitions, ...]) -> msgspec.Raw:
        try:
            texts = list(map(self._rows.__getitem__, map(id, rows)))
        except KeyError:
            self._kept += rows
            self._rows.update((id(row), encode(row)) for row in rows)
            texts = list(map(self._rows.__getitem__, map(id, rows)))
        return msgspec.Raw(b"".join((b"[", b",".join(texts), b"]")))


def decode_from_member(frame: str | bytes, limit_bytes: int | None = FRAME_LIMIT_BYTES) -> FromMember:
    """A consumer's frame; None: its size was looked at. Raises RemoteMessageError: FRAME_TOO_LARGE or
    MALFORMED_FRAME.
    """
    return _decode(_from_member, frame, limit_bytes)


def decode_to_member(frame: str | bytes) -> ToMember:
    """A coordinator's frame; its size is the transport's affair. Raises RemoteMessageError."""
    return _decode(_to_member, frame)


def decode_from_broker(frame: str | bytes) -> FromBroker:
    """What a broker sent. Raises RemoteMessageError: FRAME_TOO_LARGE or MALFORMED_FRAME."""
    return _decode(_from_broker, frame, MAX_FRAME_FROM_BROKER_BYTES)


def decode_to_broker(frame: str | bytes) -> ToBroker:
    """What the controller's node sent. Raises RemoteMessageError: FRAME_TOO_LARGE or MALFORMED_FRAME."""
    return _decode(_to_broker, frame, MAX_FRAME_TO_BROKER_BYTES)


def too_large(size_bytes: int, limit_bytes: int) -> RemoteMessageError:
    """Of a frame that is longer than it may be."""
    return RemoteMessageError(
        f"frame of {size_bytes} bytes, the limit is {limit_bytes}",
        close_code=MESSAGE_TOO_BIG_CLOSE,
        error_code=ErrorCode.FRAME_TOO_LARGE,
    )


def _decode(
    decoder: msgspec.json.Decoder[Message], frame: str | bytes, limit_bytes: int | None = None
) -> Message:
    if limit_bytes is not None and (size := bytes_of(frame)) > limit_bytes:
        raise too_large(size, limit_bytes)
    try:
        return decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise RemoteMessageError(
            f"malformed frame: {error}",
            close_code=INVALID_PAYLOAD_CLOSE,
            error_code=ErrorCode.MALFORMED_FRAME,
        ) from error
