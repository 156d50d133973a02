"""Operators' requests: stored by a door, read by the owner, answered once; a key names one request."""

import pytest

from groups.core.requests import Answer, Verdict
from runtime import requests, work
from runtime.database import Link
from runtime.ports import VersionConflict
from runtime.work_table import RequestRow, WorkRow
from tests.conformance.databases import Breakable

LANE = "coordinator/0"
ROW = WorkRow("00000000-0000-4000-8000-000000000001", "group.request", LANE, "departures", 4, {"wish": 1})


def stored(link: Link) -> RequestRow:
    link.transaction(lambda connection: connection.work_table.insert(ROW))
    link.transaction(lambda connection: connection.work_table.claim(ROW.id, "ann"))
    link.transaction(lambda connection: connection.work_table.finish(ROW.id, 1, {"found": 2}, ""))
    [row] = link.transaction(lambda connection: requests.ready(connection, ROW.kind, ["departures", "x"]))
    return row


def test_a_request_waits_until_it_is_answered_and_is_answered_once(breakable: Breakable) -> None:
    link = breakable.direct()
    row = stored(link)
    assert (row.id, row.key, row.payload, row.result) == (ROW.id, "departures", {"wish": 1}, {"found": 2})
    answer = Answer(Verdict.DONE, text="done")
    link.transaction(lambda connection: requests.conclude(connection, row.id, answer))
    assert link.transaction(lambda connection: requests.ready(connection, ROW.kind, ["departures"])) == []
    with pytest.raises(VersionConflict):
        link.transaction(lambda connection: requests.conclude(connection, row.id, answer))
    assert link.transaction(lambda connection: work.open_keys(connection, ROW.kind, ["departures"])) == set()


def test_a_request_that_cannot_be_decided_says_so(breakable: Breakable) -> None:
    link = breakable.direct()
    row = stored(link)
    link.transaction(lambda connection: requests.give_up(connection, row.id, "our mistake"))
    link.transaction(lambda connection: requests.give_up(connection, row.id, "again"))
    assert link.transaction(lambda connection: requests.ready(connection, ROW.kind, ["departures"])) == []
