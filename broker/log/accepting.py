"""This room judges batches before a log takes them: a producer's, and a leader's."""

from typing import Final, NamedTuple

from broker.log.outcomes import AppendRefused, LogSettings
from muster.kafkawire import batches
from muster.kafkawire.batches import BatchHeader
from muster.kafkawire.errors import CorruptBatch
from muster.kernel.error_codes import ErrorCode

_LARGEST_CODEC: Final = 4


class Placed(NamedTuple):
    """A batch and where it goes: `start` in the bytes it came in, `base_offset` in the log."""

    start: int
    base_offset: int
    header: BatchHeader


def from_producer(records: memoryview, settings: LogSettings) -> list[tuple[int, BatchHeader]]:
    """(start, header) of each batch of a Produce request.

    Raises AppendRefused unless every byte belongs to a good one.
    """
    found = []
    start, size = 0, len(records)
    try:
        while start < size:
            header = batches.read_header(records, start)
            batches.check(records, start, header)
            found.append((start, header))
            start += header.size_bytes
    except CorruptBatch as error:
        raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if not found:
        raise AppendRefused(ErrorCode.INVALID_RECORD, "no batch")
    for _, header in found:
        _check_served(header, settings, alone=len(found) == 1)
    return found


def _check_served(header: BatchHeader, settings: LogSettings, alone: bool) -> None:
    if header.size_bytes > settings.max_message_bytes:
        raise AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {header.size_bytes} bytes")
    if header.attributes & (batches.CONTROL_BIT | batches.TRANSACTIONAL_BIT):
        raise AppendRefused(ErrorCode.INVALID_RECORD, "transactions are not served")
    if header.attributes & 0x07 > _LARGEST_CODEC:
        raise AppendRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "an unknown codec")
    if header.producer_id != batches.NO_PRODUCER and not alone:
        raise AppendRefused(ErrorCode.INVALID_RECORD, "an idempotent producer sends one batch at a time")


class Followed(NamedTuple):
    """The good batches of one leader epoch at the head of an answer, and what is wrong behind them."""

    placed: list[Placed]
    used_bytes: int
    refusal: str
    """"": nothing is; more batches, of a later epoch, may follow."""


def from_leader(records: memoryview, end_offset: int, last_epoch: int) -> Followed:
    """What of a leader's answer fits behind `end_offset` and `last_epoch`, up to the next leader epoch.

    A last batch that is cut off is left out.
    """
    placed: list[Placed] = []
    epoch, used = last_epoch, 0
    try:
        for start, header in batches.headers(records):
            batches.check(records, start, header)
            if header.base_offset != end_offset or header.leader_epoch < epoch:
                found = f"batch {header.base_offset} of epoch {header.leader_epoch}"
                return Followed(placed, used, f"{found} at {end_offset} of epoch {epoch}")
            if placed and header.leader_epoch != epoch:
                return Followed(placed, used, "")
            epoch, end_offset = header.leader_epoch, header.next_offset
            placed.append(Placed(start, header.base_offset, header))
            used = start + header.size_bytes
    except CorruptBatch as error:
        return Followed(placed, used, str(error))
    return Followed(placed, used, "")
