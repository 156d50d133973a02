"""The last five batches of a producer are known by number: a retry gets its old offset, a gap is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.producers import Append, Duplicate, Producers, Refused
from muster.kafkawire.batches import BatchHeader, read_header
from muster.kernel.error_codes import ErrorCode
from tests.unit.kafkawire.made_batches import made_batch


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


def test_a_silent_producer_is_forgotten_by_the_clock_of_the_log_not_of_its_records() -> None:
    producers = Producers()
    producers.stored(batch(0), 0, now_ms=1_000)
    producers.forget_silent(now_ms=1_999, expiration_ms=1_000)
    assert len(producers) == 1
    producers.forget_silent(now_ms=2_000, expiration_ms=1_000)
    assert len(producers) == 0
    assert producers.judge(batch(9)) == Append(is_strangers=True)
    assert producers.has_forgotten


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
