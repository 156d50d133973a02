"""This room checks how the demo reads leader elections out of the controller's turns."""

from typing import Any
from uuid import UUID

import msgspec

from muster.messages.link.rows import PartitionRow
from standalone.demo.story import elections_of
from tests.unit.messages.made_rows import changed

FLIGHTS = UUID(int=1)


def turn(second: float, cause: str, *records: dict[str, Any]) -> dict[str, Any]:
    return {"at": f"2026-11-21T10:00:{second:06.3f}+00:00", "cause": cause, "records": list(records)}


def led_by(leader: int, partition: int = 0) -> dict[str, Any]:
    row = PartitionRow(FLIGHTS, partition, (1, 2, 3), leader, 1, (1, 2, 3), 7)
    record: dict[str, Any] = msgspec.to_builtins(changed(row, 6))
    return record


OFFERED = {"record": "WorkOffered", "kind": "on_broker_change", "key": "cluster"}


def test_the_first_leader_of_a_partition_is_no_election() -> None:
    assert elections_of([turn(1, "a worker proposed leaders", led_by(1))]) == []


def test_an_election_counts_from_the_turn_that_asked_for_it() -> None:
    turns = [
        turn(1, "a worker proposed leaders", led_by(1), led_by(1, 1)),
        turn(5, "broker 1 was silent", OFFERED),
        turn(5.25, "a worker proposed leaders", led_by(2), led_by(-1, 1)),
    ]
    (election,) = elections_of(turns)
    assert (election.cause, election.elected, election.without_leader) == ("broker 1 was silent", 1, 1)
    assert election.length_ms == 250.0


def test_a_turn_that_elects_by_itself_is_its_own_cause() -> None:
    turns = [turn(1, "a worker proposed leaders", led_by(1)), turn(2, "broker 2 said hello", led_by(2))]
    (election,) = elections_of(turns)
    assert (election.cause, election.length_ms) == ("broker 2 said hello", 0.0)


def test_a_change_of_the_in_sync_replicas_alone_is_no_election() -> None:
    later = turn(3, "a leader changed its in-sync replicas", led_by(1))
    assert elections_of([turn(1, "", led_by(1)), later]) == []
