"""Where `compression.type` names a codec, the leader opens what comes otherwise and compresses it anew."""

from pathlib import Path

import pytest

from broker.log import recompressing
from broker.log.accepting import from_producer
from broker.log.outcomes import AppendRefused, LogSettings
from muster.kafkawire import batches
from muster.kafkawire.compression import NAMES
from muster.kafkawire.records import read_records
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_log.logs import bytes_of, opened
from tests.unit.kafkawire.made_batches import made_batch, sealed_batch, view

VALUES = [b"two books" * 40, b"", b"three books" * 40]
PRODUCER = (7, 1, 0)


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("wanted", NAMES)
def test_whatever_codec_comes_the_topics_is_stored_and_all_else_stays(
    tmp_path: Path, codec: int, wanted: str
) -> None:
    log = opened(tmp_path, LogSettings(compression_type=wanted))
    made = made_batch(VALUES, producer=PRODUCER, compression=codec, headers=[("from", b"ann")])
    sent = list(read_records(made, 0))
    appended = log.append_as_leader(view(made), 4, now_ms=1_000)
    data = memoryview(bytes_of(log.read(0, 1_000_000, 3, at_least_one=True) or b""))
    ((start, header),) = batches.headers(data)
    batches.check(data, start, header)
    assert header.codec == NAMES[wanted]
    assert list(read_records(data, 0)) == sent
    assert appended.next_offset == 3 and appended.header is not None
    assert appended.header.crc == header.crc and appended.header.size_bytes == header.size_bytes == len(data)
    before = batches.read_header(made)
    stays = "last_offset_delta base_timestamp_ms max_timestamp_ms producer_id producer_epoch base_sequence"
    for field in (*stays.split(), "record_count"):
        assert getattr(header, field) == getattr(before, field)


@pytest.mark.parametrize("wanted", [*NAMES, "producer"])
def test_what_comes_as_it_is_wanted_is_stored_byte_for_byte(wanted: str) -> None:
    made = view(made_batch(VALUES, compression=NAMES.get(wanted, 2)))
    stored, header = from_producer(made, LogSettings(compression_type=wanted), 1_000)
    assert stored is made and header == batches.read_header(made)


def test_a_batch_that_is_sent_again_is_known_though_it_was_stored_otherwise(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(compression_type="zstd"))
    made = made_batch(VALUES, producer=PRODUCER, compression=1)
    first = log.append_as_leader(view(made), 1, now_ms=1_000)
    again = log.append_as_leader(view(made), 1, now_ms=1_000)
    assert again.is_duplicate and again.base_offset == first.base_offset == 0
    assert log.end_offset == 3


def test_compressed_anew_a_batch_has_the_time_at_which_it_was_stored(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(compression_type="lz4", timestamp_type="LogAppendTime"))
    log.append_as_leader(view(made_batch(VALUES, compression=1)), 1, now_ms=9_000)
    data = memoryview(bytes_of(log.read(0, 1_000_000, 3, at_least_one=True) or b""))
    assert [record.timestamp_ms for record in read_records(data, 0)] == [9_000] * 3


def test_what_cannot_be_opened_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(compression_type="zstd"))
    with pytest.raises(AppendRefused) as refused:
        log.append_as_leader(view(sealed_batch(b"no gzip at all", compression=1)), 1, now_ms=1_000)
    assert refused.value.error_code is ErrorCode.INVALID_RECORD
    assert log.end_offset == 0


def test_what_holds_fewer_records_than_it_says_is_refused(tmp_path: Path) -> None:
    """Not compressed it would be: its compression hid it, and readers met a batch that nobody can read."""
    log = opened(tmp_path, LogSettings(compression_type="uncompressed"))
    lying = sealed_batch(b"\0", compression=2, count=1_000)
    with pytest.raises(AppendRefused, match="1000 records in 0 bytes") as refused:
        log.append_as_leader(view(lying), 1, now_ms=1_000)
    assert refused.value.error_code is ErrorCode.INVALID_RECORD


def test_a_batch_that_is_too_large_once_it_is_stored_as_the_topic_says_is_refused(tmp_path: Path) -> None:
    """Kafka asks again behind the codec, and its producer splits the batch upon this error."""
    settings = LogSettings(compression_type="uncompressed", max_message_bytes=500)
    log = opened(tmp_path, settings)
    made = made_batch(VALUES, compression=1)
    assert len(made) < 500
    with pytest.raises(AppendRefused, match="as uncompressed") as refused:
        log.append_as_leader(view(made), 1, now_ms=1_000)
    assert refused.value.error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert log.end_offset == 0


@pytest.mark.parametrize("codec", [0, 1])
def test_no_more_is_compressed_anew_than_the_loop_may_be_held_for(
    monkeypatch: pytest.MonkeyPatch, codec: int
) -> None:
    monkeypatch.setattr(recompressing, "MOST_BYTES", 500)
    made = view(made_batch(VALUES, compression=codec))
    with pytest.raises(AppendRefused, match="500") as refused:
        from_producer(made, LogSettings(compression_type="zstd"), 1_000)
    assert refused.value.error_code is ErrorCode.MESSAGE_TOO_LARGE
