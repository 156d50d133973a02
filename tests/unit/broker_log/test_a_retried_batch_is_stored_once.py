"""The last five batches of a producer are known by number: a retry gets its old offset, a gap is refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.producers import Append, Duplicate, Producers, Refused
from broker.log.outcomes import Appended, LogSettings
from muster.kafkawire import batches
from muster.kafkawire.batches import BatchHeader, read_header
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_log.logs import opened
from tests.unit.kafkawire.made_batches import made_batch, view


def batch(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    return read_header(made_batch([b"x"] * count, producer=(producer_id, epoch, sequence)))


def _with(*sequences: int) -> Producers:
    producers = Producers()
    for offset, sequence in enumerate(sequences):
        producers.stored(batch(sequence), 100 + offset, now_ms=0)
    return producers


def test_the_next_sequence_is_appended() -> None:
    assert _with(0, 1).judge(batch(2)) == Append()


@pytest.mark.parametrize(("sequence", "offset"), [(1, 101), (5, 105)])
def test_any_of_the_last_five_is_answered_with_its_old_offset(sequence: int, offset: int) -> None:
    assert _with(0, 1, 2, 3, 4, 5).judge(batch(sequence)) == Duplicate(offset, offset)


@pytest.mark.parametrize("sequence", [0, 7, 100])
def test_a_gap_and_a_batch_older_than_five_are_out_of_order(sequence: int) -> None:
    verdict = _with(0, 1, 2, 3, 4, 5).judge(batch(sequence))
    assert verdict == Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_the_same_first_sequence_with_another_length_is_no_duplicate() -> None:
    assert _with(0, 1).judge(batch(1, count=2)) == Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_0() -> None:
    producers = Producers()
    producers.stored(batch(0, epoch=3), 0, 0)
    assert producers.judge(batch(1, epoch=2)) == Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert producers.judge(batch(5, epoch=4)) == Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert producers.judge(batch(0, epoch=4)) == Append()


def test_sequences_wrap_at_the_largest_number() -> None:
    producers = Producers()
    producers.stored(batch(2**31 - 1), 0, 0)
    assert producers.judge(batch(0)) == Append()


def test_a_batch_without_a_producer_is_always_appended() -> None:
    plain = read_header(made_batch([b"x"]))
    producers = Producers()
    producers.stored(plain, 0, 0)
    assert len(producers) == 0
    assert producers.judge(plain) == Append()


def test_a_producer_that_was_silent_for_long_is_forgotten() -> None:
    producers = Producers()
    producers.stored(batch(0), 0, now_ms=1_000)
    producers.forget_silent(now_ms=1_999, expiration_ms=1_000)
    assert len(producers) == 1
    producers.forget_silent(now_ms=2_000, expiration_ms=1_000)
    assert len(producers) == 0
    assert producers.judge(batch(9)) == Append(is_strangers=True)
    assert producers.has_forgotten


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_who_replays_old_records_is_known_for_as_long_as_any_other(tmp_path: Path, role: str) -> None:
    """KAFKA-9144: by their times these producers stored their last batch fifty years ago."""
    now_ms, expiration_ms = 1_700_000_000_000, 1_000
    log = opened(tmp_path, LogSettings(segment_bytes=250, producer_id_expiration_ms=expiration_ms))

    def append(producer_id: int, at_ms: int) -> Appended | None:
        records = view(made_batch([b"x" * 100], producer=(producer_id, 0, 0), timestamp_ms=1_000))
        if role == "leader":
            return log.append_as_leader(records, 1, at_ms)
        batches.stamp(records, 0, log.end_offset, 1)
        log.append_as_follower(records, at_ms)
        return None

    for number in range(4):
        append(number, now_ms + number)
    known = [producer_id for producer_id, _ in log.producers.states()]
    assert (known, log.end_offset) == ([0, 1, 2, 3], 4)
    append(4, now_ms + expiration_ms + 1)
    assert [producer_id for producer_id, _ in log.producers.states()] == [2, 3, 4]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=40),
    st.lists(st.booleans(), min_size=1),
)
def test_a_producer_that_retries_at_will_stores_everything_once(
    sends: list[tuple[int, int]], retries: list[bool]
) -> None:
    producers, log, next_sequence, offset = Producers(), [], {1: 0, 2: 0, 3: 0}, 0
    for index, (producer_id, count) in enumerate(sends):
        header = batch(next_sequence[producer_id], count, producer_id=producer_id)
        for _ in range(2 if retries[index % len(retries)] else 1):
            verdict = producers.judge(header)
            if isinstance(verdict, Append):
                producers.stored(header, offset, 0)
                log.append((producer_id, header.base_sequence))
                offset += count
            else:
                assert verdict == Duplicate(offset - count, offset - 1)
        next_sequence[producer_id] += count
    assert len(log) == len(set(log)) == len(sends)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5)), max_size=20))
def test_what_is_saved_comes_back(stored: list[tuple[int, int]]) -> None:
    producers = Producers()
    for offset, (producer_id, sequence) in enumerate(stored):
        producers.stored(batch(sequence, producer_id=producer_id), offset, offset)
    saved = json.loads(json.dumps(producers.saved()))
    assert Producers.restored(saved).saved() == producers.saved()


def test_who_wrote_longest_ago_is_forgotten_when_more_write_than_are_remembered() -> None:
    """Anybody may state a producer id: each record of a stranger would else take a place for a day."""
    producers = Producers(most=3)
    for offset, (producer_id, sequence) in enumerate([(1, 0), (2, 0), (3, 0), (1, 1), (4, 0)]):
        producers.stored(batch(sequence, producer_id=producer_id), offset, 0)
    assert [saved[0] for saved in producers.saved()] == [3, 1, 4]
