"""What the journal shows of a turn with thousands of records is found in the thread of its lane."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from muster.kernel.decision import Decision
from runtime.ports import Entry
from runtime.turn import MANY_RECORDS
from tests.conformance.counters import Added, Counters
from tests.unit.runtime.lanes_in_memory import lanes_in_memory


@dataclass
class Telling(Counters):
    """Notes in which threads its words were asked for."""

    asked_in: list[int] = field(default_factory=list)

    def entry(self, key: str, events: Sequence[int], decision: Decision[Added, int]) -> Entry:
        self.asked_in.append(threading.get_ident())
        return super().entry(key, events, decision)

    def weight(self, event: int) -> int:
        return 0


@pytest.mark.parametrize(("records", "beside"), [(MANY_RECORDS - 1, False), (MANY_RECORDS, True)])
async def test_the_loop_waits_for_the_words_of_few_records_only(records: int, beside: bool) -> None:
    counters = Telling()
    async with lanes_in_memory() as made:
        lane = await made.take()
        await lane.submit_turn(counters, "ann", *[1] * records)
        [turn] = made.database.tables["journal"].values()
    assert [thread != threading.get_ident() for thread in counters.asked_in] == [beside]
    assert counters.said == [("ann", 1)] * records
    assert turn.summary == {"events": records}
