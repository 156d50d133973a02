"""What people are told of who lags: a thousand at a time, and who is well again before who is not."""

from uuid import UUID

from broker.core.lag_notes import LagNotes
from broker.core.replica_log import PartitionKey
from muster.kernel.instants import Instant
from muster.messages.limits import MAX_ROWS_PER_FRAME

ORDERS = UUID(int=1)


def test_however_many_begin_to_lag_who_is_well_again_is_told() -> None:
    """A wave goes through many partitions: at each look others lag, more of them than a frame holds."""
    notes, told, wave = LagNotes(), set[int](), MAX_ROWS_PER_FRAME + 1
    for look in range(20):
        lag = range(look * wave, (look + 1) * wave)
        said = notes.news({PartitionKey(ORDERS, number): (2,) for number in lag}, Instant(look * 2_000))
        told |= {one.partition for one in said if one.lagging}
        told -= {one.partition for one in said if not one.lagging}
        assert len(said) <= MAX_ROWS_PER_FRAME
    assert len(told - set(lag)) <= MAX_ROWS_PER_FRAME


def test_those_that_lag_are_all_told_in_the_end() -> None:
    notes = LagNotes()
    lag = {PartitionKey(ORDERS, number): (2,) for number in range(MAX_ROWS_PER_FRAME + 1)}
    assert [len(notes.news(lag, Instant(0))) for _ in range(3)] == [MAX_ROWS_PER_FRAME, 1, 0]
    assert [len(notes.news({}, Instant(0))) for _ in range(3)] == [MAX_ROWS_PER_FRAME, 1, 0]
