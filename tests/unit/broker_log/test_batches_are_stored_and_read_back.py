"""What was appended is read back batch by batch, from any offset, within any limit, over any segments."""

from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.log.outcomes import AppendRefused, LogSettings
from muster.kafkawire import batches
from muster.kafkawire.batches import CONTROL_BIT
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_log.logs import append, bytes_of, opened, stored
from tests.unit.kafkawire.made_batches import made_batch, sealed_batch, view


def test_offsets_follow_each_other_over_segments(tmp_path: Path) -> None:
    log = opened(tmp_path)
    bases = [append(log, *[b"x" * 200] * 2) for _ in range(10)]
    assert bases == list(range(0, 20, 2))
    assert len(list(tmp_path.glob("*.log"))) > 3
    assert stored(log) == [(base, base + 2) for base in bases]


def test_of_many_batches_the_places_of_few_are_kept(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings())
    kept: list[int] = []
    for number in range(300):
        assert append(log, b"a") == number
        kept.append(len(log._segments.active._hints))  # type: ignore[union-attr]
    assert max(kept) <= 80 and min(kept[64:]) >= 64, "one for each follower and reader near the tail"
    assert stored(log) == [(base, base + 1) for base in range(300)]


def test_a_batch_carries_its_leaders_epoch(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"a", epoch=4)
    append(log, b"b", epoch=6)
    assert [header.leader_epoch for header in log.headers_from(0)] == [4, 6]
    assert log.last_epoch == 6
    assert log.end_of_epoch(5) == (4, 1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3_000)), min_size=1, max_size=30),
    st.integers(200, 20_000),
    st.data(),
)
def test_a_reader_gets_every_batch_once_from_any_offset_below_any_limit(
    tmp_path_factory: pytest.TempPathFactory,
    shapes: list[tuple[int, int]],
    segment_bytes: int,
    data: st.DataObject,
) -> None:
    log = opened(tmp_path_factory.mktemp("log"), LogSettings(segment_bytes=segment_bytes))
    expected = []
    for count, size in shapes:
        base = append(log, *[b"x" * size] * count)
        expected.append((base, base + count))
    limit = data.draw(st.sampled_from([end for _, end in expected]))
    offset = data.draw(st.integers(0, limit - 1))
    wanted = [(base, end) for base, end in expected if end > offset and end <= limit]
    assert stored(log, offset, limit) == wanted
    max_bytes = data.draw(st.integers(1, 30_000))
    region = log.read(offset, max_bytes, limit, at_least_one=True)
    assert region is not None
    first_size = next(h.size_bytes for h in log.headers_from(offset))
    assert len(region) <= max(max_bytes, first_size)


def test_nothing_is_read_at_or_above_the_limit(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"a")
    append(log, b"b")
    assert log.read(1, 1_000, 1, at_least_one=True) is None
    assert stored(log, 0, 1) == [(0, 1)]


def test_a_batch_larger_than_the_limit_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"x" * 500)
    whole = log.read(0, 10, 1, at_least_one=True)
    assert whole is not None
    assert len(whole) > 500
    assert log.read(0, 10, 1, at_least_one=False) is None


@pytest.mark.parametrize("place", [17, 25, 60, -1])
def test_a_batch_with_a_wrong_checksum_is_refused_and_nothing_is_stored(tmp_path: Path, place: int) -> None:
    log = opened(tmp_path)
    data = made_batch([b"a" * 50])
    data[place] ^= 1
    with pytest.raises(AppendRefused) as refused:
        log.append_as_leader(view(data), 1, 0)
    assert refused.value.error_code is ErrorCode.CORRUPT_MESSAGE
    assert (log.end_offset, log.size_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (b"short", ErrorCode.INVALID_RECORD),
        (bytes(made_batch([b"a"]))[:-1], ErrorCode.INVALID_RECORD),
        (bytes(made_batch([b"a"]))[:16] + b"\x01" + bytes(made_batch([b"a"]))[17:], ErrorCode.INVALID_RECORD),
        (bytes(made_batch([b"x" * 2_000])), ErrorCode.MESSAGE_TOO_LARGE),
        (bytes(made_batch([b"a"], producer=(5, 0, 0), is_transactional=True)), ErrorCode.INVALID_RECORD),
        (bytes(sealed_batch(b"a marker of its end", compression=CONTROL_BIT)), ErrorCode.INVALID_RECORD),
        (bytes(sealed_batch(b"a codec of later", compression=5)), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (bytes(made_batch([b"a"]) + made_batch([b"b"])), ErrorCode.INVALID_RECORD),
        (bytes(made_batch([b"a"]) + b"more"), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "empty",
        "no header",
        "cut off",
        "of another magic",
        "too large",
        "transactional",
        "control",
        "of another codec",
        "two batches",
        "something behind",
    ],
)
def test_what_may_not_be_stored_is_refused_by_name(tmp_path: Path, data: bytes, code: ErrorCode) -> None:
    log = opened(tmp_path, LogSettings(max_message_bytes=1_000))
    with pytest.raises(AppendRefused) as refused:
        log.append_as_leader(view(data), 1, 0)
    assert refused.value.error_code is code
    assert log.end_offset == 0


def test_the_first_batch_at_a_time_is_found(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(20):
        append(log, b"x" * 300, timestamp_ms=1_000 * number)
    found = log.first_from(7_500, log.end_offset)
    assert found == (8_000, 8)
    assert log.first_from(99_000, log.end_offset) is None
    assert log.first_from(8_000, 8) is None


def test_a_follower_stores_byte_for_byte_what_its_leader_holds(tmp_path: Path) -> None:
    leader, follower = opened(tmp_path / "leader"), opened(tmp_path / "follower")
    for number in range(6):
        append(leader, b"x" * 300, epoch=1 + number // 3)
    while follower.end_offset < leader.end_offset:
        region = leader.read(follower.end_offset, 700, leader.end_offset, at_least_one=True)
        assert region is not None
        data = bytes_of(region)
        follower.append_as_follower(memoryview(data), 0)
    assert stored(follower) == stored(leader)
    assert follower.epochs.entries == leader.epochs.entries == [(1, 0), (2, 3)]


def test_a_follower_stores_nothing_that_does_not_begin_at_its_end(tmp_path: Path) -> None:
    log = opened(tmp_path)
    ahead = view(made_batch([b"a"]))
    batches.stamp(ahead, 0, base_offset=5, leader_epoch=1)
    with pytest.raises(AppendRefused):
        log.append_as_follower(ahead, 0)
    assert log.end_offset == 0


def test_a_follower_leaves_a_batch_that_is_cut_off_for_the_next_fetch(tmp_path: Path) -> None:
    log = opened(tmp_path)
    first, second = view(made_batch([b"a"])), view(made_batch([b"b"]))
    batches.stamp(first, 0, 0, 1)
    batches.stamp(second, 0, 1, 1)
    assert log.append_as_follower(view(bytes(first), bytes(second)[:-1]), 0) == 1
    assert log.append_as_follower(second, 0) == 2


def test_a_batch_without_records_is_refused(tmp_path: Path) -> None:
    """It would take no offset: the segment behind it would be given the file of the one that holds it."""
    log = opened(tmp_path, LogSettings(segment_bytes=100))
    made = made_batch([b"v"])[:61]
    for at, number in ((8, 61 - 12), (23, -1), (57, 0)):
        made[at : at + 4] = number.to_bytes(4, signed=True)
    made[17:21] = crc32c(made[21:]).to_bytes(4)
    with pytest.raises(AppendRefused) as refused:
        log.append_as_leader(view(made), 1, now_ms=0)
    assert refused.value.error_code is ErrorCode.INVALID_RECORD
    with pytest.raises(AppendRefused):
        log.append_as_follower(view(made), now_ms=0)
    assert (log.end_offset, log.size_bytes) == (0, 0)
