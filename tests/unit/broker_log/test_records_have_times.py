"""A topic says whose time its records have, how far it may lie off, and how long a segment is written."""

from pathlib import Path

import pytest

from broker.log.accepting import from_producer
from broker.log.outcomes import AppendRefused, LogSettings
from muster.kafkawire import batches
from muster.kafkawire.records import read_records
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_log.logs import append, bytes_of, opened
from tests.unit.kafkawire.made_batches import made_batch, view

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
APPEND_TIME = LogSettings(timestamp_type="LogAppendTime")


@pytest.mark.parametrize("compression", [0, 1])
def test_where_a_topic_takes_append_time_each_record_has_the_time_at_which_it_was_stored(
    tmp_path: Path, compression: int
) -> None:
    log = opened(tmp_path, APPEND_TIME)
    made = made_batch([b"a", b"b"], timestamp_ms=NOW_MS - 500 * HOUR_MS, compression=compression)
    appended = log.append_as_leader(view(made), 1, now_ms=NOW_MS)
    assert appended.append_time_ms == NOW_MS
    data = memoryview(bytes_of(log.read(0, 1_000_000, 2, at_least_one=True) or b""))
    header = batches.read_header(data)
    batches.check(data, 0, header)
    assert [record.timestamp_ms for record in read_records(data, 0)] == [NOW_MS, NOW_MS]
    assert log.first_from(NOW_MS, 2) is not None


def test_where_a_topic_takes_the_producers_time_none_is_told_back(tmp_path: Path) -> None:
    log = opened(tmp_path)
    appended = log.append_as_leader(view(made_batch([b"a"], timestamp_ms=NOW_MS)), 1, now_ms=NOW_MS)
    assert appended.append_time_ms == -1


@pytest.mark.parametrize(
    ("timestamp_ms", "is_taken"),
    [
        (NOW_MS + HOUR_MS, True),
        (NOW_MS + HOUR_MS + 1, False),
        (NOW_MS - 2 * HOUR_MS, True),
        (NOW_MS - 2 * HOUR_MS - 1, False),
        (-1, True),
    ],
)
def test_times_lie_within_the_bounds_of_the_topic(timestamp_ms: int, is_taken: bool) -> None:
    settings = LogSettings(timestamp_before_max_ms=2 * HOUR_MS)
    made = view(made_batch([b"a"], timestamp_ms=timestamp_ms))
    if is_taken:
        from_producer(made, settings, NOW_MS)
        return
    with pytest.raises(AppendRefused) as refused:
        from_producer(made, settings, NOW_MS)
    assert refused.value.error_code is ErrorCode.INVALID_TIMESTAMP
    from_producer(made, LogSettings(timestamp_type="LogAppendTime"), NOW_MS)


def test_a_producer_may_not_say_that_its_times_are_the_brokers() -> None:
    made = view(made_batch([b"a"], timestamp_ms=NOW_MS))
    batches.stamp_append_time(made, 0, batches.read_header(made), NOW_MS)
    for settings in (LogSettings(), APPEND_TIME):
        with pytest.raises(AppendRefused) as refused:
            from_producer(made, settings, NOW_MS)
        assert refused.value.error_code is ErrorCode.INVALID_TIMESTAMP


def test_a_segment_takes_no_batch_that_is_much_younger_than_its_first(tmp_path: Path) -> None:
    settings = LogSettings(segment_ms=10_000)
    log = opened(tmp_path, settings)
    for timestamp_ms in (1_000, 11_000, 5_000, -1, 11_001, 12_000):
        append(log, b"a", timestamp_ms=timestamp_ms)
    assert [int(path.stem) for path in sorted(tmp_path.glob("*.log"))] == [0, 4]
    again = opened(tmp_path, settings)
    append(again, b"a", timestamp_ms=21_001)
    append(again, b"a", timestamp_ms=21_002)
    assert [int(path.stem) for path in sorted(tmp_path.glob("*.log"))] == [0, 4, 7]
