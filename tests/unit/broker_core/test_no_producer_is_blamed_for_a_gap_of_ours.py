"""Who stands behind a refused batch is refused for the same reason, until that one comes again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.producers import Append, Producers
from broker.core.refused_batches import RefusedBatches
from muster.kafkawire.batches import BatchHeader, read_header
from muster.kernel.error_codes import ErrorCode
from tests.unit.kafkawire.made_batches import NO_PRODUCER, made_batch

HERE = ("orders", 0)
ANN, BEN = "127.0.0.1:50001", "127.0.0.1:50002"
TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def batch(sequence: int, *, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    return read_header(made_batch([b"x"], producer=(producer_id, epoch, sequence)))


def stored(*sequences: int, epoch: int = 0) -> Producers:
    producers = Producers()
    for offset, sequence in enumerate(sequences):
        producers.stored(batch(sequence, epoch=epoch), offset, now_ms=0)
    return producers


def refused(*sequences: int, epoch: int = 0, error_code: ErrorCode = TOO_FEW) -> RefusedBatches:
    batches = RefusedBatches()
    for sequence in sequences:
        batches.note(HERE, ANN, batch(sequence, epoch=epoch), error_code)
    return batches


@pytest.mark.parametrize("producers", [stored(3, 4), stored()], ids=["known", "unknown"])
def test_whoever_stands_behind_is_refused_until_the_refused_one_comes_again(producers: Producers) -> None:
    batches = refused(5)
    assert batches.in_the_way(HERE, ANN, batch(6), producers) is TOO_FEW
    assert batches.in_the_way(HERE, ANN, batch(8), producers) is TOO_FEW
    assert batches.in_the_way(HERE, ANN, batch(5), producers) is ErrorCode.NONE
    assert len(batches) == 0


def test_the_first_of_several_refused_ones_is_waited_for() -> None:
    batches = refused(5, 6, 7)
    assert batches.in_the_way(HERE, ANN, batch(6), stored()) is TOO_FEW
    batches.note(HERE, ANN, batch(5), NOT_LEADER)
    assert batches.in_the_way(HERE, ANN, batch(6), stored()) is NOT_LEADER


def test_what_is_in_sequence_is_judged_as_ever_for_another_leader_stored_what_was_refused() -> None:
    batches = refused(5)
    assert batches.in_the_way(HERE, ANN, batch(8), stored(5, 6, 7)) is None
    assert len(batches) == 0


def test_what_is_stored_already_is_judged_as_ever() -> None:
    assert refused(5).in_the_way(HERE, ANN, batch(6), stored(5, 6, 7)) is None


@pytest.mark.parametrize("late", [batch(6, epoch=1), batch(6, producer_id=8), batch(4)])
def test_another_epoch_another_producer_or_what_came_before_is_judged_as_ever(late: BatchHeader) -> None:
    assert refused(5).in_the_way(HERE, ANN, late, stored(2, 3)) is None


def test_another_partition_is_judged_as_ever() -> None:
    assert refused(5).in_the_way(("orders", 1), ANN, batch(6), stored(3, 4)) is None


def test_each_connection_has_a_line_of_its_own() -> None:
    """What is read late from one that its producer gave up clears nothing on the next one."""
    batches = refused(5, 6)
    batches.note(HERE, BEN, batch(5), NOT_LEADER)
    assert batches.in_the_way(HERE, BEN, batch(5), stored(3, 4)) is ErrorCode.NONE
    assert batches.in_the_way(HERE, BEN, batch(7), stored(3, 4)) is None
    assert batches.in_the_way(HERE, ANN, batch(7), stored(3, 4)) is TOO_FEW


def test_another_line_begins_where_the_log_has_gone_past_the_one_that_is_known() -> None:
    """Another leader stored meanwhile what was refused here first (producing seed 6214)."""
    batches = refused(0, 1)
    for sequence in (1, 2, 3):
        batches.note(HERE, ANN, batch(sequence), TOO_FEW, stored(0))
    assert batches.in_the_way(HERE, ANN, batch(4), stored(0)) is TOO_FEW


def test_who_insists_over_another_connection_is_known_again() -> None:
    assert refused(5).in_the_way(HERE, BEN, batch(5), stored()) is ErrorCode.NONE


def test_a_new_epoch_that_was_refused_at_its_beginning_is_waited_for() -> None:
    assert refused(0, epoch=1).in_the_way(HERE, ANN, batch(3, epoch=1), stored(3, 4)) is TOO_FEW


def test_no_more_are_refused_than_were_under_way() -> None:
    """A producer that went elsewhere and never sends the refused one again is not shut out."""
    batches, refusals = refused(5), 0
    for sequence in range(6, 20):
        if batches.in_the_way(HERE, ANN, batch(sequence), stored()) is None:
            break
        batches.note(HERE, ANN, batch(sequence), TOO_FEW)
        refusals += 1
    assert refusals == 4


def test_sequences_wrap() -> None:
    last = 2**31 - 1
    assert refused(last).in_the_way(HERE, ANN, batch(0), stored(last - 1)) is TOO_FEW
    assert refused(0).in_the_way(HERE, ANN, batch(last), stored(last - 1)) is None


def test_batches_without_a_producer_or_for_what_is_no_topic_are_not_remembered() -> None:
    batches = RefusedBatches()
    batches.note(HERE, ANN, read_header(made_batch([b"x"], producer=NO_PRODUCER)), TOO_FEW)
    batches.note(("o" * 250, 0), ANN, batch(5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert len(batches) == 0


def test_who_was_refused_longest_ago_is_forgotten_first() -> None:
    batches = RefusedBatches(most=4)
    for producer_id in (1, 2, 1, 3):
        batches.note(HERE, ANN, batch(5, producer_id=producer_id), TOO_FEW)
    asked = [batches.in_the_way(HERE, ANN, batch(6, producer_id=one), stored()) for one in (1, 2, 3)]
    assert asked == [TOO_FEW, None, TOO_FEW]


@given(st.lists(st.booleans(), max_size=60), st.booleans(), st.integers(1, 5))
def test_a_producer_that_sends_again_what_was_refused_is_stored_once_and_in_order(
    refusals: list[bool], is_known: bool, in_flight: int
) -> None:
    """Whatever the moments at which a broker refuses: no batch is told to be out of order."""
    producers, batches = stored(*([2**31 - 1] if is_known else [])), RefusedBatches()
    log: list[int] = []
    fate = iter(refusals)
    while len(log) < 12:
        answers = []
        for sequence in range(len(log), len(log) + in_flight):
            one = batch(sequence)
            if next(fate, False):
                error: ErrorCode | None = TOO_FEW
            else:
                error = batches.in_the_way(HERE, ANN, one, producers)
            if error:
                batches.note(HERE, ANN, one, error)
            else:
                assert producers.judge(one) == Append()
                producers.stored(one, sequence, 0)
                log.append(sequence)
            answers.append(bool(error))
        # What was refused is sent again together with all behind it.
        assert answers == sorted(answers)
    assert log == list(range(len(log)))
