"""Truncation drops whole batches, and epochs, indexes and producers follow the new end."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.log.files import OpenFiles
from broker.log.opening import Trust
from broker.log.outcomes import LogSettings, StorageFailed
from broker.log.partition_log import PartitionLog
from tests.unit.broker_log.logs import ORDERS, SMALL, append, bytes_of, opened, stored
from tests.unit.kafkawire.made_batches import made_batch, view


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 3), min_size=1, max_size=15), st.integers(0, 50))
def test_a_cut_log_equals_one_that_never_had_the_rest(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = opened(folder / "cut")
    fresh = opened(folder / "fresh")
    end = sequence = 0
    for number, count in enumerate(counts):
        epoch = 1 + number // 4
        append(log, *[b"x" * 150] * count, epoch=epoch, producer=(7, 0, sequence))
        if end + count <= cut:
            append(fresh, *[b"x" * 150] * count, epoch=epoch, producer=(7, 0, sequence))
        else:
            cut = min(cut, end)
        end += count
        sequence += count
    log.truncate_to(cut, now_ms=0)
    assert log.end_offset == fresh.end_offset
    assert stored(log) == stored(fresh)
    assert log.epochs.entries == fresh.epochs.entries
    assert log.producers.saved() == fresh.producers.saved()
    assert stored(opened(folder / "cut")) == stored(fresh)


def test_a_producer_goes_on_where_the_cut_log_ends(tmp_path: Path) -> None:
    """`ps_not_rolled`: state that is not rolled back answers a duplicate for what is not stored."""
    log = opened(tmp_path)
    for number in range(8):
        append(log, b"x" * 300, producer=(7, 0, number))
    log.truncate_to(5, now_ms=0)
    assert append(log, b"again", producer=(7, 0, 5)) == 5
    retried = view(made_batch([b"x" * 300], producer=(7, 0, 4)))
    assert log.append_as_leader(retried, 1, 0).is_duplicate


def _stored_by(log: PartitionLog) -> list[tuple[int, int, object]]:
    return [(who, known.epoch, known.batches) for who, known in log.producers.states()]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(6, 8)), min_size=1, max_size=25), st.integers(1, 50))
def test_what_was_read_before_a_cut_is_what_it_would_read(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[int, int]], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    before, after = opened(folder / "before"), opened(folder / "after")
    sequences = dict.fromkeys(range(6, 9), 0)
    for count, who in batches:
        for log in (before, after):
            append(log, *[b"x" * 150] * count, producer=(who, 0, sequences[who]))
        sequences[who] += count
    replay = before.replay(cut, at_once=0)
    if replay is not None:
        replay.read(now_ms=0)
        assert cut >= before.end_offset or replay.read_for(cut, before.cuts) is not None
    before.truncate_to(cut, 0, replay)
    after.truncate_to(cut, 0)
    assert before.end_offset == after.end_offset and _stored_by(before) == _stored_by(after)
    snapshots = [sorted(one.name for one in log.folder.glob("*.snapshot")) for log in (before, after)]
    assert snapshots[0] == snapshots[1]


def test_what_was_read_of_a_log_that_was_cut_since_does_not_count(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=100_000))
    for number in range(8):
        append(log, b"x" * 300, producer=(7, 0, number))
    replay = log.replay(6, at_once=0)
    assert replay is not None
    replay.read(now_ms=0)
    log.truncate_to(2, now_ms=0)
    for number in range(8):
        append(log, b"x" * 300, epoch=2, producer=(8, 0, number))
    log.truncate_to(6, 0, replay)
    assert [who for who, *_ in _stored_by(log)] == [7, 8]


@pytest.mark.parametrize("goes_on_with_a_batch", [False, True])
def test_a_file_that_another_took_the_place_of_is_read_by_the_cut(
    tmp_path: Path, goes_on_with_a_batch: bool
) -> None:
    """As a pass of the compactor does, which may leave less of a batch, and other places of all."""
    log = opened(tmp_path, LogSettings(segment_bytes=100_000))
    for number in range(40):
        append(log, b"x" * 300, producer=(7, 0, number))
    replay = log.replay(30, at_once=0)
    assert replay is not None
    [path] = tmp_path.glob("*.log")
    path.write_bytes(path.read_bytes()[path.stat().st_size // 40 if goes_on_with_a_batch else 500 :])
    replay.read(now_ms=0)
    assert replay.read_for(30, log.cuts) is None


def test_a_short_way_is_read_at_once_and_what_is_ended_is_not_read(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=1_000_000))
    append(log, *[b"x"] * 50)
    append(log, b"y")
    assert log.replay(50, at_once=50) is None, "the rest is one batch"
    append(log, b"z")
    replay = log.replay(51, at_once=50)
    assert replay is not None
    replay.end()
    replay.read(now_ms=0)
    assert replay.read_for(51, log.cuts) is None


def test_a_cut_above_the_end_changes_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"a")
    log.truncate_to(5, now_ms=0)
    assert log.end_offset == 1


def test_a_log_can_begin_again_far_ahead(tmp_path: Path) -> None:
    """Conformance 232: the leader's start lies above the own end."""
    log = opened(tmp_path)
    append(log, b"a")
    log.start_again_at(1_000, now_ms=0)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (1_000, 1_000, -1)
    again = opened(tmp_path)
    assert (again.start_offset, again.end_offset) == (1_000, 1_000)
    assert append(again, b"b") == 1_000


def test_a_log_that_is_cut_below_its_start_goes_on_there(tmp_path: Path) -> None:
    """A leader that lost its disk has less than this log has deleted: its end is where both go on."""
    log = opened(tmp_path)
    log.start_again_at(1_000, now_ms=0)
    append(log, b"a", epoch=3)
    log.truncate_to(400, now_ms=0)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (400, 400, -1)
    assert append(log, b"b", epoch=4) == 400
    again = opened(tmp_path)
    assert (again.start_offset, again.end_offset, again.last_epoch) == (400, 401, 4)


def test_a_reader_that_was_promised_a_deleted_segment_still_gets_it(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(6):
        append(log, b"x" * 400)
    region = log.read(0, 100_000, log.end_offset, at_least_one=True)
    assert region is not None
    log.start_again_at(50, now_ms=0)
    assert len(bytes_of(region)) == len(region)


def test_producers_of_before_a_jump_are_forgotten(tmp_path: Path) -> None:
    """What lies between was not seen, so a producer that went on meanwhile is not out of order."""
    log = opened(tmp_path, SMALL)
    for number in range(40):
        append(log, b"x" * 60, producer=(7, 0, number))
    log.start_again_at(10_000, 0)
    assert append(log, b"y", producer=(7, 0, 500)) == 10_000
    assert append(opened(tmp_path, SMALL), b"z", producer=(7, 0, 501)) == 10_001


@pytest.mark.parametrize("cut", [1, 2])
def test_a_log_whose_rest_is_spoilt_is_not_written_behind_it(tmp_path: Path, cut: int) -> None:
    """A bit of the first batch's length flips under a process that runs: what is left has no end."""
    log = opened(tmp_path)
    for value in (b"a", b"b", b"c"):
        append(log, value)
    [path] = tmp_path.glob("*.log")
    data = bytearray(path.read_bytes())
    data[9] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageFailed, match="what should lie at offset"):
        log.truncate_to(cut, now_ms=0)
    assert log.failure
    again = PartitionLog(tmp_path, ORDERS, OpenFiles(), SMALL)
    assert "what should lie at offset" in again.open(Trust(was_clean=False, recovery_point=0), now_ms=0)
    assert again.end_offset == 0
