"""After kill -9 a log ends before the first byte that is no whole, right batch, and knows the rest again."""

import os
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.core.leader_epochs import LeaderEpochs
from broker.core.replica_log import PartitionKey
from broker.log.checkpoints import LEADER_EPOCHS, save_epochs
from broker.log.files import OpenFiles
from broker.log.opening import Trust
from broker.log.outcomes import LogSettings
from broker.log.partition_log import PartitionLog
from broker.log.shelf import STRAY, LogShelf
from tests.unit.broker_log.logs import append, opened, stored
from tests.unit.kafkawire.made_batches import made_batch


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 3), min_size=1, max_size=12), st.integers(0, 10_000))
def test_a_torn_tail_is_cut_to_the_last_whole_batch(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], torn: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = opened(folder, LogSettings(segment_bytes=100_000))
    expected = []
    for count in counts:
        base = append(log, *[b"x" * 100] * count)
        expected.append((base, base + count))
    path = _segments(folder)[0]
    kept = torn % (path.stat().st_size + 1)
    sizes, whole = 0, 0
    for header in log.headers_from(0):
        sizes += header.size_bytes
        whole += sizes <= kept
    os.truncate(path, kept)
    again = opened(folder)
    assert stored(again) == expected[:whole]
    assert again.end_offset == (expected[whole - 1][1] if whole else 0)
    assert append(again, b"next") == again.end_offset - 1


def test_a_torn_write_is_no_damage_whatever_the_topic_lets_a_batch_be(tmp_path: Path) -> None:
    """No topic is known yet when logs are opened, only the broker's own message.max.bytes."""
    log = opened(tmp_path, LogSettings(max_message_bytes=1_000_000))
    append(log, b"small")
    append(log, b"x" * 50_000)
    path = _segments(tmp_path)[0]
    os.truncate(path, path.stat().st_size - 1)
    again = PartitionLog(tmp_path, log.topic_id, OpenFiles(), LogSettings(max_message_bytes=1_000))
    assert again.open(Trust(), now_ms=0) == ""
    assert again.end_offset == 1


def test_a_tail_with_a_flipped_bit_is_cut(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings())
    for _ in range(3):
        append(log, b"x" * 100)
    path = _segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    assert opened(tmp_path).end_offset == 2


def test_segments_behind_a_broken_one_are_not_used(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(10):
        append(log, b"x" * 300)
    first = _segments(tmp_path)[0]
    os.truncate(first, first.stat().st_size - 1)
    again = opened(tmp_path)
    assert len(_segments(tmp_path)) == 1
    assert again.end_offset == len(stored(again)) == 1


def test_segments_below_the_recovery_point_are_not_read_again(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(6):
        append(log, b"x" * 300)
    first = _segments(tmp_path)[0]
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    again = opened(tmp_path, recovery_point=int(_segments(tmp_path)[1].stem))
    assert again.end_offset == 6


def test_a_clean_stop_leaves_everything_to_be_taken_over(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(8):
        append(log, b"x" * 300, producer=(7, 0, number), epoch=1 + number // 4)
    log.flush()
    log.close()
    again = opened(tmp_path, was_clean=True, recovery_point=8)
    assert stored(again) == stored(log)
    assert again.epochs.entries == [(1, 0), (2, 4)]
    assert append(again, b"y", epoch=2, producer=(7, 0, 8)) == 8


def test_epochs_are_read_from_the_batches_when_their_file_is_gone(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for epoch in (1, 1, 3, 5):
        append(log, b"x" * 300, epoch=epoch)
    (tmp_path / "leader-epoch-checkpoint").unlink()
    assert opened(tmp_path).epochs.entries == [(1, 0), (3, 2), (5, 3)]


def test_an_epoch_whose_first_batch_never_came_is_forgotten(tmp_path: Path) -> None:
    log = opened(tmp_path)
    append(log, b"a", epoch=1)
    save_epochs(tmp_path / LEADER_EPOCHS, LeaderEpochs([(1, 0), (9, 1)]))
    assert opened(tmp_path).last_epoch == 1
    assert log.last_epoch == 1


def test_a_log_of_whole_rubbish_is_empty(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").write_bytes(os.urandom(5_000))
    log = opened(tmp_path)
    assert (log.start_offset, log.end_offset) == (0, 0)
    assert append(log, b"a") == 0


def test_a_retried_batch_is_known_again_after_a_kill(tmp_path: Path) -> None:
    """replication.md: without it a new leader refuses or doubles a retried batch."""
    log = opened(tmp_path)
    for number in range(9):
        append(log, b"x" * 300, producer=(7, 0, number))
    again = opened(tmp_path)
    retried = memoryview(bytearray(made_batch([b"x" * 300], producer=(7, 0, 8))))
    answer = again.append_as_leader(retried, 1, 0)
    assert (answer.base_offset, answer.is_duplicate) == (8, True)
    assert again.end_offset == 9


def test_a_log_that_was_not_opened_since_the_kill_keeps_the_stop_from_being_clean(tmp_path: Path) -> None:
    """Else the third process would trust the first one's torn tail, and append behind it."""
    key = PartitionKey(UUID(int=1), 0)
    first = LogShelf(tmp_path, was_clean=False)
    first.scan()
    append(first.log(key, "orders", LogSettings(), 0), b"a")
    with _segments(tmp_path / "orders-0")[0].open("ab") as torn:
        torn.write(made_batch([b"b"])[:-1])
    second = LogShelf(tmp_path, was_clean=False)
    second.scan()
    assert not second.close({})
    third = LogShelf(tmp_path, was_clean=False)
    third.scan()
    third.log(key, "orders", LogSettings(), 0)
    assert third.close({})


@pytest.mark.parametrize("begins_anew", [False, True])
def test_what_was_written_behind_a_cut_is_checked(tmp_path: Path, *, begins_anew: bool) -> None:
    """Below what the file of recovery points says, and never flushed (compacting seed 15709)."""
    key, small = PartitionKey(UUID(int=1), 0), LogSettings(segment_bytes=1_000)
    shelf = LogShelf(tmp_path, was_clean=False)
    shelf.scan()
    log = shelf.log(key, "orders", small, 0)
    while log.end_offset < 9:
        append(log, b"x" * 300)
    log.flush()
    shelf.checkpoint({})
    if begins_anew:
        shelf.set_aside(key, STRAY)
        log = shelf.log(key, "orders", small, 0)
    else:
        log.truncate_to(4, 0)
    while log.end_offset < 8:
        append(log, b"y" * 300, epoch=2)
    written = next(path for path in _segments(tmp_path / "orders-0") if b"y" in path.read_bytes())
    data = bytearray(written.read_bytes())
    data[-1] ^= 1
    written.write_bytes(data)
    again = LogShelf(tmp_path, was_clean=False)
    again.scan()
    again.log(key, "orders", small, 0)
    assert again.damaged == {key: f"the batch at offset {1 if begins_anew else 5} is damaged"}


def test_a_segment_that_was_half_durable_is_flushed_when_it_is_full(tmp_path: Path) -> None:
    log = opened(tmp_path, LogSettings(segment_bytes=1_000))
    append(log, b"x" * 300)
    log.flush()
    while len(_segments(tmp_path)) < 2:
        append(log, b"x" * 300)
    (full,) = log.full_segments()
    log.flushed_through(full, log.cuts)
    assert (log.full_segments(), log.recovery_point) == ([], int(_segments(tmp_path)[1].stem))
