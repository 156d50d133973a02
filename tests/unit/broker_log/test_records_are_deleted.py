"""Records below an offset go: nothing is read of them, also after a kill, and their segments go whole."""

from pathlib import Path

import pytest

from broker.log.checkpoints import LOG_START
from broker.log.files import OpenFiles
from broker.log.opening import Trust
from broker.log.outcomes import LogSettings
from broker.log.partition_log import PartitionLog
from muster.kafkawire import batches
from tests.unit.broker_log.logs import ORDERS, append, bytes_of, opened, stored
from tests.unit.kafkawire.made_batches import view

TWO_A_SEGMENT = LogSettings(segment_bytes=250)


def _log_of(folder: Path, batches_of_two: int) -> PartitionLog:
    log = opened(folder, TWO_A_SEGMENT)
    for number in range(batches_of_two):
        append(log, b"%d" % number, b"and more", producer=(7, 0, 2 * number))
    return log


def _segments(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.log"))


def test_segments_below_go_and_the_start_is_where_it_was_asked(tmp_path: Path) -> None:
    log = _log_of(tmp_path, 8)
    before = _segments(tmp_path)
    assert log.delete_before(before[2] + 1, now_ms=0)
    assert _segments(tmp_path) == before[2:]
    assert (log.start_offset, log.end_offset) == (before[2] + 1, 16)
    assert not log.delete_before(before[1], now_ms=0), "a start never goes back"
    assert log.start_offset == before[2] + 1


def test_a_process_that_starts_finds_the_start_again(tmp_path: Path) -> None:
    _log_of(tmp_path, 8).delete_before(7, now_ms=0)
    again = opened(tmp_path, TWO_A_SEGMENT)
    assert (again.start_offset, again.end_offset) == (7, 16)
    assert stored(again, 7)[0] == (6, 8), (
        "a batch is whole or not there: its reader drops what it did not ask"
    )


def test_all_that_is_there_goes_and_the_next_record_has_the_next_offset(tmp_path: Path) -> None:
    log = _log_of(tmp_path, 3)
    log.delete_before(6, now_ms=0)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (6, 6, 0)
    again = opened(tmp_path, TWO_A_SEGMENT)
    assert (again.start_offset, again.end_offset) == (6, 6)
    assert append(again, b"next", producer=(7, 0, 6), epoch=2) == 6, "its producer goes on where it was"
    assert stored(opened(tmp_path)) == [(6, 7)]


def test_a_producer_is_not_judged_by_what_it_stored_before_the_records_that_went(tmp_path: Path) -> None:
    """The newest file of producers was damaged: by an older one whoever goes on was out of order for ever."""
    log = _log_of(tmp_path, 8)
    log.delete_before(16, now_ms=0)
    *older, newest = sorted(tmp_path.glob("*.snapshot"))
    assert older and newest.stem == f"{16:020}"
    newest.write_bytes(b"?")
    again = opened(tmp_path, TWO_A_SEGMENT)
    assert append(again, b"next", producer=(7, 0, 16)) == 16


def test_what_a_kill_left_of_it_is_dropped_by_the_next_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _log_of(tmp_path, 8)
    before = _segments(tmp_path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("broker.log.segments.Segments.drop_oldest", killed)
        with pytest.raises(KeyboardInterrupt):
            log.delete_before(9, now_ms=0)
    again = opened(tmp_path, TWO_A_SEGMENT)
    assert (again.start_offset, _segments(tmp_path)) == (9, before)
    kept = LogSettings(segment_bytes=250, cleanup_policy=frozenset({"compact"}))
    again.settings = kept
    assert again.apply_retention(wall_ms=0, high_watermark=16) == 2
    assert _segments(tmp_path) == before[2:]


def test_a_log_that_lost_more_than_what_was_deleted_goes_on_at_its_start(tmp_path: Path) -> None:
    log = _log_of(tmp_path, 2)
    (tmp_path / f"{0:020}.log").write_bytes((tmp_path / f"{0:020}.log").read_bytes()[:100])
    log.delete_before(3, now_ms=0)
    again = opened(tmp_path, TWO_A_SEGMENT)
    assert (again.start_offset, again.end_offset, stored(again, 3)) == (3, 3, [])
    assert append(again, b"next", epoch=2) == 3


def test_a_start_that_cannot_be_believed_is_confessed(tmp_path: Path) -> None:
    _log_of(tmp_path, 8).delete_before(7, now_ms=0)
    path = tmp_path / LOG_START
    path.write_bytes(path.read_bytes().replace(b"7", b"3", 1))
    log = PartitionLog(tmp_path, ORDERS, OpenFiles(), TWO_A_SEGMENT)
    assert "begins" in log.open(Trust(), now_ms=0)
    assert log.start_offset == _segments(tmp_path)[0]


def test_a_follower_begins_within_a_batch_of_its_leader(tmp_path: Path) -> None:
    leader = _log_of(tmp_path / "leader", 3)
    leader.delete_before(3, now_ms=0)
    follower = opened(tmp_path / "follower", TWO_A_SEGMENT)
    follower.start_again_at(3, now_ms=0)
    assert (follower.start_offset, follower.end_offset) == (3, 3)
    region = leader.read(3, 10_000, leader.end_offset, at_least_one=True)
    assert region is not None
    follower.append_as_follower(view(bytes_of(region)), now_ms=0)
    while follower.end_offset < leader.end_offset:
        region = leader.read(follower.end_offset, 10_000, leader.end_offset, at_least_one=True)
        assert region is not None
        follower.append_as_follower(view(bytes_of(region)), now_ms=0)
    assert (follower.start_offset, stored(follower, 3)) == (3, [(2, 4), (4, 6)])
    again = opened(tmp_path / "follower", TWO_A_SEGMENT)
    assert (again.start_offset, again.end_offset) == (3, 6)


def test_a_batch_that_holds_the_start_is_no_damage(tmp_path: Path) -> None:
    log = _log_of(tmp_path, 3)
    log.delete_before(3, now_ms=0)
    assert log.damage_at(3, last_epoch=-1) == ""
    assert log.damage_at(5, last_epoch=-1) != "", "nobody stands in the middle of any other batch"


def test_a_follower_that_is_sent_a_bad_batch_at_its_start_has_stored_nothing(tmp_path: Path) -> None:
    leader = _log_of(tmp_path / "leader", 1)
    follower = opened(tmp_path / "follower", TWO_A_SEGMENT)
    follower.start_again_at(1, now_ms=0)
    region = leader.read(0, 10_000, 2, at_least_one=True)
    assert region is not None
    data = bytearray(bytes_of(region))
    data[batches.HEADER_BYTES + 2] ^= 1
    with pytest.raises(Exception, match="checksum"):
        follower.append_as_follower(view(bytes(data)), now_ms=0)
    assert (follower.start_offset, follower.end_offset) == (1, 1)


def test_a_log_that_is_cut_within_its_first_batch_goes_on_at_its_start(tmp_path: Path) -> None:
    log = _log_of(tmp_path, 3)
    log.delete_before(3, now_ms=0)
    log.truncate_to(4, now_ms=0)
    assert (log.start_offset, log.end_offset) == (3, 4)
    log.truncate_to(3, now_ms=0)
    assert (log.start_offset, log.end_offset) == (3, 3)
    assert append(log, b"next", epoch=2) == 3


def test_leader_epochs_before_the_start_are_forgotten(tmp_path: Path) -> None:
    log = opened(tmp_path, TWO_A_SEGMENT)
    for epoch in (1, 2, 3):
        append(log, b"a", b"b", epoch=epoch)
    log.delete_before(3, now_ms=0)
    assert log.epochs.entries == [(2, 3), (3, 4)]
    assert opened(tmp_path, TWO_A_SEGMENT).epochs.entries == [(2, 3), (3, 4)]


def test_a_search_by_time_finds_nothing_that_was_deleted(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings())
    for time_ms in (1_000, 2_000, 3_000):
        append(log, b"a", b"b", timestamp_ms=time_ms)
    log.delete_before(3, now_ms=0)
    found = log.first_from(0, limit_offset=6)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (3, 2_001)
