"""This room makes batches of walks, honest and spoilt ones, and tells what batches say that were fetched."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from aiokafka.record.memory_records import MemoryRecords
from crc32c import crc32c

from tests.unit.kafkawire.made_batches import made_batch

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC_FROM: Final = 21
APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40


@dataclass(frozen=True)
class Batch:
    """What a producer sends; `spoilt` names one of SPOILERS."""

    records: int
    size_bytes: int
    codec: int
    time_ms: int
    is_keyed: bool
    spoilt: str | None = None

    def made(self, producer: tuple[int, int, int]) -> bytes | None:
        """Its bytes; `producer` is (id, epoch, first sequence)."""
        values = [bytes([65 + number]) * self.size_bytes for number in range(self.records)]
        batch = made_batch(
            values,
            producer=producer,
            compression=self.codec,
            timestamp_ms=self.time_ms,
            is_keyed=self.is_keyed,
        )
        if self.spoilt == "two":
            identity, epoch, sequence = producer
            behind = replace(self, spoilt=None).made(
                (identity, epoch, (sequence + self.records) % 2**31 if sequence >= 0 else -1)
            )
            return bytes(batch) + (behind or b"")
        return SPOILERS[self.spoilt](batch) if self.spoilt else bytes(batch)


def _flipped(batch: bytearray) -> bytes:
    return bytes(batch[:-1]) + bytes([batch[-1] ^ 1])


def _magic(number: int) -> Callable[[bytearray], bytes]:
    return lambda batch: bytes(batch[:16]) + bytes([number]) + bytes(batch[17:])


def _longer(by: int) -> Callable[[bytearray], bytes]:
    def lie(batch: bytearray) -> bytes:
        struct.pack_into(">i", batch, 8, len(batch) - 12 + by)
        return bytes(batch)

    return lie


def _at(place: int, form: str, change: Callable[[int], int]) -> Callable[[bytearray], bytes]:
    """Change one number of the header, and seal the batch anew."""

    def lie(batch: bytearray) -> bytes:
        (number,) = struct.unpack_from(form, batch, place)
        struct.pack_into(form, batch, place, change(number))
        struct.pack_into(">I", batch, 17, crc32c(bytes(batch[_CRC_FROM:])))
        return bytes(batch)

    return lie


def _empty(batch: bytearray) -> bytes:
    head = batch[:61]
    struct.pack_into(">i", head, 8, 49)
    struct.pack_into(">i", head, 57, 0)
    struct.pack_into(">I", head, 17, crc32c(bytes(head[_CRC_FROM:])))
    return bytes(head)


def _flag(bit: int) -> Callable[[bytearray], bytes]:
    return _at(21, ">h", lambda attributes: attributes | bit)


SPOILERS: Final[Mapping[str, Callable[[bytearray], bytes]]] = MappingProxyType(
    {
        "torn": lambda batch: bytes(batch[:-3]),
        "torn in its header": lambda batch: bytes(batch[:40]),
        "a wrong checksum": _flipped,
        "magic 0": _magic(0),
        "magic 1": _magic(1),
        "magic 3": _magic(3),
        "a length that is too large": _longer(5),
        "a length that is too small": _longer(-5),
        "a length below a header": lambda batch: _longer(10 - len(batch))(batch),
        "bytes behind it": lambda batch: bytes(batch) + bytes(7),
        "control": _flag(CONTROL),
        "transactional": _flag(TRANSACTIONAL),
        "append time": _flag(APPEND_TIME),
        "delete horizon": _flag(DELETE_HORIZON),
        "codec 5": _at(21, ">h", lambda attributes: attributes & ~7 | 5),
        "no records": _empty,
        "a record too many": _at(57, ">i", lambda count: count + 1),
        "a last delta too large": _at(23, ">i", lambda delta: delta + 1),
        "a last delta below 0": _at(23, ">i", lambda _: -1),
        "another largest time": _at(35, ">q", lambda time_ms: time_ms + 10),
        "offset 77": lambda batch: struct.pack(">q", 77) + bytes(batch[8:]),
        "leader epoch 9": lambda batch: bytes(batch[:12]) + struct.pack(">i", 9) + bytes(batch[16:]),
    }
)
"""By their names, what each makes of an honest batch."""


def told_of(raw: bytes | None) -> list[dict[str, Any]]:
    """What each whole batch says; a time that the broker stated is "when it came"."""
    told, rest = [], raw or b""
    while len(rest) >= _HEADER.size:
        (
            base,
            length,
            _,
            magic,
            _,
            attributes,
            last,
            first_ms,
            largest_ms,
            producer,
            epoch,
            sequence,
            count,
        ) = _HEADER.unpack_from(rest)
        if len(rest) < length + 12:
            break
        batch, rest = rest[: length + 12], rest[length + 12 :]
        opened = MemoryRecords(batch).next_batch()
        stamped = bool(attributes & APPEND_TIME)
        told.append(
            {
                "base_offset": base, "magic": magic, "attributes": attributes, "last_delta": last,
                "count": count,
                "times": "when it came" if stamped else (first_ms, largest_ms), "has_producer": producer >= 0,
                "epoch": epoch, "sequence": sequence,
                "records": [
                    (one.offset, 0 if stamped else one.timestamp, one.key, (one.value or b"")[:3],
                     len(one.value or b""))
                    for one in opened or ()
                ],
            }
        )  # fmt: skip
    return told
