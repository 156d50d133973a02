"""What is true and said behind thousands of records is found in their lane's thread, before the write."""

import pytest

from controller.core.draft import ClusterDecision
from controller.core.events import TimePassed
from controller.core.records import ClusterRecord, RequestAnswered, TurnStamped
from controller.subject import CLUSTER
from muster.kernel.invariants import InvariantViolation
from muster.messages.link.brokers import BrokerResult
from runtime.turn import MANY_RECORDS
from tests.unit.controller_service.stage import HereAndNow, linked

ANSWERED = RequestAnswered("a-request", "olga", "", BrokerResult(correlation_id=1, broker_id=3))


@pytest.mark.parametrize(("records", "readied"), [(MANY_RECORDS - 1, False), (MANY_RECORDS, True)])
async def test_its_journal_entry_is_where_that_happens(records: int, readied: bool) -> None:
    here = HereAndNow()
    service, links, _ = await linked(here)
    assert service.cluster.memory is not None
    rows = here.rows
    stamped: ClusterRecord = TurnStamped(rows.metadata_version + 1)
    large = (stamped, *[ANSWERED] * (records - 1))
    decision = ClusterDecision(records=large, rows=rows, memory=service.cluster.memory)
    service.cluster.entry(CLUSTER, [TimePassed()], decision)
    assert "state" in vars(decision)
    assert ("texts" in vars(decision)) == readied
    assert decision.state.rows.metadata_version == rows.metadata_version + 1
    for link in links.values():
        link.hang_up("the end")


async def test_what_does_not_fit_the_rows_fails_before_it_is_written() -> None:
    here = HereAndNow()
    service, links, _ = await linked(here)
    assert service.cluster.memory is not None
    late = TurnStamped(here.rows.metadata_version)
    decision = ClusterDecision(records=(late,), rows=here.rows, memory=service.cluster.memory)
    with pytest.raises(InvariantViolation):
        service.cluster.entry(CLUSTER, [TimePassed()], decision)
    for link in links.values():
        link.hang_up("the end")
