"""This room opens a producer's batch, and compresses it anew as its topic's `compression.type` says."""

from typing import Final

from broker.log.outcomes import AppendRefused, LogSettings
from muster.kafkawire import batches
from muster.kafkawire.batches import BatchHeader
from muster.kafkawire.compression import compress
from muster.kafkawire.errors import KafkaWireError, RecordsTooLarge
from muster.kafkawire.record_frames import SMALLEST_RECORD_BYTES, records_of
from muster.kernel.error_codes import ErrorCode

MOST_BYTES: Final = 16 * 1024 * 1024
"""The records of one batch are no larger decompressed: the loop is held while they are, and for a look at
their keys, or to compress them anew. What no codec makes smaller takes gzip 0.04 s a megabyte, others 0.01.
"""


def opened(batch: memoryview, header: BatchHeader) -> bytes | memoryview:
    """Its records, decompressed.

    Raises AppendRefused: MESSAGE_TOO_LARGE, upon which Kafka's producer splits the batch, for more than
    MOST_BYTES, and INVALID_RECORD for what cannot be opened or holds fewer records than it says.
    """
    try:
        records = records_of(batch, header, MOST_BYTES)
        if len(records) > MOST_BYTES:
            raise RecordsTooLarge(f"the records are {len(records)} bytes, and {MOST_BYTES} are looked at")
    except RecordsTooLarge as error:
        raise AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except KafkaWireError as error:
        raise AppendRefused(ErrorCode.INVALID_RECORD, str(error)) from error
    if len(records) < header.record_count * SMALLEST_RECORD_BYTES:
        text = f"{header.record_count} records in {len(records)} bytes"
        raise AppendRefused(ErrorCode.INVALID_RECORD, text)
    return records


def as_configured(
    batch: memoryview, header: BatchHeader, settings: LogSettings, records: bytes | memoryview | None
) -> tuple[memoryview, BatchHeader]:
    """The batch as the topic wants it compressed, writable, and its header; itself where it is so already.

    `records`: what `opened` found in it, if somebody has opened it. Raises AppendRefused as that does, and
    MESSAGE_TOO_LARGE for what is too large then, as Kafka says it.
    """
    codec = settings.codec
    if codec is None or header.codec == codec:
        return batch, header
    records = opened(batch, header) if records is None else records
    payload = compress(codec, bytes(records)) if codec else records
    fresh = memoryview(batches.recompressed(batch, header, payload, codec))
    if len(fresh) > settings.max_message_bytes:
        text = f"a batch of {len(fresh)} bytes as {settings.compression_type}"
        raise AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, text)
    return fresh, batches.read_header(fresh)
