"""This room makes record batches for tests, with aiokafka's builder: not with the code under test."""

from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder

NO_PRODUCER = (-1, -1, -1)


def made_batch(
    values: Sequence[bytes],
    *,
    producer: tuple[int, int, int] = NO_PRODUCER,
    compression: int = 0,
    timestamp_ms: int = 1_000,
    headers: Sequence[tuple[str, bytes | None]] = (),
    is_transactional: bool = False,
) -> bytearray:
    """A batch as a producer sends it; `producer` is (id, epoch, base sequence).

    The timestamp rises by one with each record; the key of value n is b"k<n>".
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
        key = b"k%d" % index
        builder.append(index, timestamp_ms + index, key, value, list(headers))
    return bytearray(builder.build())


def view(*batches: bytes | bytearray) -> memoryview:
    """Batches behind each other, writable, as they lie in a received frame."""
    return memoryview(bytearray(b"".join(batches)))
