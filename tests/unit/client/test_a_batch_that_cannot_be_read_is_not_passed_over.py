"""An application that goes on after an exception gets no record from behind the batch that caused it."""

from uuid import UUID

import pytest

from muster.client.tenure import Tenure
from muster.kafkawire.errors import CorruptBatch
from tests.unit.kafkawire.made_batches import made_batch


def batch(offset: int, *values: bytes) -> bytearray:
    """A batch as it lies in a log: the broker writes the offset, which the checksum leaves out."""
    made = made_batch(values)
    made[:8] = offset.to_bytes(8, "big")
    return made


def test_a_corrupt_batch_stays_the_next_one() -> None:
    good, bad = batch(0, b"a", b"b"), batch(2, b"c")
    bad[-1] ^= 0xFF
    tenure = Tenure("orders", UUID(int=1), 0, 1, 0)
    assert tenure.accept(bytes(good + bad + batch(3, b"d")))
    held = tenure.buffered_bytes
    assert tenure.open_some() == 2
    assert [record.offset for record in tenure.ready] == [0, 1]
    tenure.delivered_to = 2
    for _ in range(2):
        with pytest.raises(CorruptBatch):
            tenure.open_some()
    assert tenure.buffered_bytes == held - len(good)
