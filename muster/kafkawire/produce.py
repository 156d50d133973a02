"""This room reads Produce requests in place, so that a megabyte of records is never copied to be read.

kio would hand the records out as new bytes; everything else it does (conformance E3, Produce 3 to 12).
The tests compare this reader with kio's.
"""

import struct
from typing import NamedTuple

from muster.kafkawire.api_table import SERVED, ApiKey, RequestHeader, is_flexible
from muster.kafkawire.cursor import Cursor
from muster.kafkawire.errors import MalformedFrame


class PartitionRecords(NamedTuple):
    """The records for one partition: a view into the frame, valid as long as the frame is."""

    topic: str
    partition: int
    records: memoryview | None


class ProduceRequest(NamedTuple):
    """A Produce request whose records are still in its frame."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    parts: list[PartitionRecords]


def read_produce(header: RequestHeader, frame: memoryview) -> ProduceRequest:
    """The request in `frame`, versions 3 to 12. Raises MalformedFrame, FrameTooLarge."""
    flexible = is_flexible(header.api_key, header.api_version)
    cursor = Cursor(frame, header.body_start, flexible, SERVED[ApiKey.PRODUCE].limit_elements)
    try:
        transactional_id = cursor.string()
        acks = cursor.int16()
        timeout_ms = cursor.int32()
        parts: list[PartitionRecords] = []
        for _ in range(cursor.array_size()):
            topic = cursor.string()
            if topic is None:
                raise MalformedFrame("a topic without a name")
            for _ in range(cursor.array_size()):
                parts.append(PartitionRecords(topic, cursor.int32(), cursor.records()))
                cursor.tags()
            cursor.tags()
        cursor.tags()
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedFrame(f"Produce: {error}") from error
    return ProduceRequest(transactional_id, acks, timeout_ms, parts)
