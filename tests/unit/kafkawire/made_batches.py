"""This room makes record batches for tests, with aiokafka's builder: not with the code under test."""

import struct
from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from crc32c import crc32c

NO_PRODUCER = (-1, -1, -1)


def made_batch(
    values: Sequence[bytes],
    *,
    producer: tuple[int, int, int] = NO_PRODUCER,
    compression: int = 0,
    timestamp_ms: int = 1_000,
    headers: Sequence[tuple[str, bytes | None]] = (),
    is_transactional: bool = False,
    is_keyed: bool = True,
) -> bytearray:
    """A batch as a producer sends it; `producer` is (id, epoch, base sequence).

    The timestamp rises by one with each record; the key of value n is b"k<n>", or there are none.
    """
    producer_id, epoch, sequence = producer
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=is_transactional,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=16 * 1024 * 1024,
    )
    for index, value in enumerate(values):
        key = b"k%d" % index if is_keyed else None
        builder.append(index, timestamp_ms + index, key, value, list(headers))
    return bytearray(builder.build())


def sealed_batch(payload: bytes, *, compression: int, count: int = 1) -> bytearray:
    """A batch with a right checksum around any bytes, as a broken or hostile producer sends it."""
    made = made_batch([b"v"] * count)[:61] + payload
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">h", made, 21, compression)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return made


def lying_batch(
    records: Sequence[tuple[int, bytes, bytes | None]],
    *,
    count: int | None = None,
    last_delta: int | None = None,
    time_delta: int = 0,
) -> bytearray:
    """A batch with a right checksum of records that state (offset delta, key, value), as a liar sends it.

    `count` and `last_delta` are what its header says; by default what is true of an honest one.
    `time_delta` is what each record states.
    """
    payload = b""
    for delta, key, value in records:
        said = _varint(len(value)) + value if value is not None else _varint(-1)
        body = b"\0" + _varint(time_delta) + _varint(delta) + _varint(len(key)) + key + said + _varint(0)
        payload += _varint(len(body)) + body
    made = sealed_batch(payload, compression=0, count=len(records))
    if count is not None:
        struct.pack_into(">i", made, 57, count)
    if last_delta is not None:
        struct.pack_into(">i", made, 23, last_delta)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return made


def _varint(number: int) -> bytes:
    left, said = (number << 1) ^ (number >> 63), b""
    while left >= 0x80:
        said += bytes([left & 0x7F | 0x80])
        left >>= 7
    return said + bytes([left])


def view(*batches: bytes | bytearray) -> memoryview:
    """Batches behind each other, writable, as they lie in a received frame."""
    return memoryview(bytearray(b"".join(batches)))
