"""A batch that is not what its header says is refused for good, or at least spoils nobody else's records."""

from pathlib import Path

import pytest

from broker.log.outcomes import AppendRefused, LogSettings
from broker.log.partition_log import PartitionLog
from muster.kafkawire import batches
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_log.compacted_logs import COMPACT, compact, put
from tests.unit.broker_log.logs import bytes_of, opened
from tests.unit.kafkawire.made_batches import lying_batch, made_batch, view

THREE = [(number, b"k%d" % number, b"v") for number in range(3)]
TOMBSTONE = b"k\x01\x00"
"""The end of a record of this key without a value."""
NOT_COMPACTED = LogSettings(segment_bytes=400)


def refusal(log: PartitionLog, batch: bytes | bytearray) -> ErrorCode:
    with pytest.raises(AppendRefused) as refused:
        log.append_as_leader(view(batch), 1, 0)
    assert log.end_offset == 0
    return refused.value.error_code


@pytest.mark.parametrize(
    ("count", "last_delta"),
    [(3, 100), (3, 1), (3, -1), (0, 2), (-1, 2), (100, 99), (2, 2)],
)
def test_counts_that_do_not_fit_are_an_error_that_no_producer_tries_again(
    tmp_path: Path, count: int, last_delta: int
) -> None:
    """CORRUPT_MESSAGE, by which a batch is sent again until its time is over, is for the way."""
    batch = lying_batch(THREE, count=count, last_delta=last_delta)
    assert refusal(opened(tmp_path), batch) is ErrorCode.INVALID_RECORD
    batch[-1] ^= 1
    assert refusal(opened(tmp_path / "another"), batch) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("offset", [77, -1])
def test_a_batch_that_states_an_offset_of_the_log_is_refused(tmp_path: Path, offset: int) -> None:
    """A producer knows none: its batches begin at 0, as those of all clients do."""
    batch = made_batch([b"a"])
    batches.stamp(batch, 0, base_offset=offset, leader_epoch=-1)
    assert refusal(opened(tmp_path), batch) is ErrorCode.INVALID_RECORD


def test_a_sequence_below_zero_is_refused(tmp_path: Path) -> None:
    batch = made_batch([b"a"], producer=(5, 0, -1))
    assert refusal(opened(tmp_path), batch) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("epoch", [-1, -5])
def test_an_epoch_below_zero_is_refused(tmp_path: Path, epoch: int) -> None:
    """No epoch of its producer would be below it: whatever it sends twice would be stored twice."""
    batch = made_batch([b"a"], producer=(5, epoch, 0))
    assert refusal(opened(tmp_path), batch) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("deltas", [(0, 2, 1), (0, 0, 1), (0, 1, 100), (0, 1, -7)])
def test_a_compacted_topic_takes_each_record_at_its_own_offset_only(
    tmp_path: Path, deltas: tuple[int, ...]
) -> None:
    batch = lying_batch([(delta, b"k", b"v") for delta in deltas])
    assert refusal(opened(tmp_path, COMPACT), batch) is ErrorCode.INVALID_RECORD


def turned_compacted(folder: Path, *written: bytes | bytearray) -> PartitionLog:
    """A log that took these before its topic was compacted, with enough behind them to compact them."""
    log = opened(folder, NOT_COMPACTED)
    for batch in written:
        log.append_as_leader(view(batch), 1, 0)
    log.settings = COMPACT
    for number in range(12):
        put(log, (b"filler%d" % number, b"x" * 100))
    return log


def left(log: PartitionLog) -> bytes:
    """All that readers are sent."""
    found, offset = b"", 0
    while (region := log.read(offset, 1_000_000, log.end_offset, at_least_one=True)) is not None:
        found += bytes_of(region)
        offset = max(header.next_offset for _, header in batches.headers(found))
    return found


def test_a_later_value_outlives_a_record_that_claims_an_offset_far_ahead(tmp_path: Path) -> None:
    """The pass ends before the later one, as it has no room for more keys."""
    ahead = lying_batch([(1_000, b"k", b"claimed")], count=1, last_delta=0)
    others = [lying_batch([(0, b"other%d" % number, b"x")]) for number in range(2)]
    log = turned_compacted(tmp_path, ahead, *others, lying_batch([(0, b"k", b"latest")]))
    compact(log, most_keys=2)
    assert b"latest" in left(log)


def test_a_record_that_claims_the_place_of_another_keeps_nothing_alive(tmp_path: Path) -> None:
    """Which records stay is known by their places only where nobody claims another batch's."""
    claims = lying_batch([(1, b"k", b"claims")], count=1, last_delta=0)
    another = lying_batch([(0, b"other", b"superseded"), (1, b"other", b"last")])
    log = turned_compacted(tmp_path, claims, another)
    compact(log)
    sent = left(log)
    assert b"claims" in sent and b"last" in sent
    assert b"superseded" not in sent


def test_a_deletion_that_claims_an_offset_far_behind_deletes(tmp_path: Path) -> None:
    """It went at once, as if it had been there for long, and what it deletes stayed."""
    log = turned_compacted(
        tmp_path,
        *(lying_batch([(0, b"other%d" % number, b"x")]) for number in range(20)),
        lying_batch([(0, b"k", b"deleted")]),
    )
    compact(log, wall_ms=10**9)
    log.settings = NOT_COMPACTED
    log.append_as_leader(view(lying_batch([(-30, b"k", None)], count=1, last_delta=0)), 1, 0)
    log.settings = COMPACT
    for number in range(12):
        put(log, (b"more%d" % number, b"x" * 100))
    compact(log, wall_ms=10**12)
    sent = left(log)
    assert b"deleted" not in sent or TOMBSTONE in sent, "it stays as long as what it deletes"


@pytest.mark.parametrize("known", [2, 4], ids=["fewer", "more"])
def test_records_that_are_not_as_many_as_stated_stop_no_compaction(tmp_path: Path, known: int) -> None:
    """Nobody can read them; all around them is compacted."""
    wrong = lying_batch(THREE, count=known, last_delta=known - 1)
    log = turned_compacted(tmp_path, wrong, *(lying_batch([(0, b"k", b"%04d" % n)]) for n in range(20)))
    compact(log)
    sent = left(log)
    assert bytes(wrong[61:]) in sent, "left as it is"
    assert b"0019" in sent and b"0003" not in sent


@pytest.mark.parametrize("time_delta", [2**63 - 1, -(2**62)])
def test_records_of_no_time_that_there_is_stop_no_compaction(tmp_path: Path, time_delta: int) -> None:
    """By its header the batch is of now."""
    wrong = lying_batch([(0, b"k", b"goes"), (1, b"other", b"stays")], time_delta=time_delta)
    stated = batches.read_header(wrong).max_timestamp_ms
    log = turned_compacted(tmp_path, wrong, *(lying_batch([(0, b"k", b"%04d" % n)]) for n in range(20)))
    compact(log)
    sent = left(log)
    assert b"goes" not in sent and b"stays" in sent
    assert batches.read_header(sent).max_timestamp_ms in (stated, batches.NO_TIMESTAMP)
