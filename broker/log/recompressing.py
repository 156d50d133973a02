"""This room compresses a producer's batch anew where its topic says how (`compression.type`)."""

from typing import Final

from broker.log.outcomes import AppendRefused, LogSettings
from muster.kafkawire import batches
from muster.kafkawire.batches import BatchHeader
from muster.kafkawire.compression import compress
from muster.kafkawire.errors import KafkaWireError, RecordsTooLarge
from muster.kafkawire.record_frames import records_of
from muster.kernel.error_codes import ErrorCode

MOST_BYTES: Final = 16 * 1024 * 1024
"""The records of one batch are no larger decompressed: the loop is held meanwhile, some 0.2 s at most."""


def as_configured(
    batch: memoryview, header: BatchHeader, settings: LogSettings
) -> tuple[memoryview, BatchHeader]:
    """The batch as the topic wants it compressed, writable, and its header; itself where it is so already.

    Raises AppendRefused: INVALID_RECORD for what cannot be opened, MESSAGE_TOO_LARGE for what is too large
    then, as Kafka says it.
    """
    codec = settings.codec
    if codec is None or header.codec == codec:
        return batch, header
    try:
        records = records_of(batch, header, MOST_BYTES)
    except RecordsTooLarge as error:
        raise AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except KafkaWireError as error:
        raise AppendRefused(ErrorCode.INVALID_RECORD, str(error)) from error
    if len(records) > MOST_BYTES:
        text = f"the records are {len(records)} bytes, and {MOST_BYTES} are compressed anew"
        raise AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, text)
    payload = compress(codec, bytes(records)) if codec else records
    fresh = memoryview(batches.recompressed(batch, header, payload, codec))
    if len(fresh) > settings.max_message_bytes:
        text = f"a batch of {len(fresh)} bytes as {settings.compression_type}"
        raise AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, text)
    return fresh, batches.read_header(fresh)
