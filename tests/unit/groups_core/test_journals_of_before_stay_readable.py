"""What stands in the journals of running clusters is read for ever: tags and fields of records stay."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import msgspec
import pytest

from groups.core.records import GroupRecord
from groups.history import Entry, rebalances

TOPIC = "00000000-0000-0000-0000-000000000001"

# Rows as the first version wrote them, one of each kind. Add to them; never change one.
ROWS = f"""
{{"record": "MemberAdded", "member_id": "ann", "token_hash": "00", "topic_count": [{{"topic": "orders"}}],
 "session_timeout_ms": 10000, "auto_commit": true, "auto_offset_reset": "latest", "client_host": "10.0.0.1"}}
{{"record": "MemberChanged", "member_id": "ann", "topic_count": [{{"topic": "o.*", "is_pattern": true}}],
 "session_timeout_ms": 10000, "auto_commit": false, "auto_offset_reset": "none"}}
{{"record": "MemberRemoved", "member_id": "ben", "why": "session over"}}
{{"record": "OffsetsFlushed",
 "offset_info": [{{"topic": "orders", "topic_id": "{TOPIC}", "partitions": [[0, 7, 0]]}}]}}
{{"record": "GenerationOpened", "generation": 3}}
{{"record": "PartitionsReleased", "member_id": "ben",
 "partitions": [{{"topic": "orders", "topic_id": "{TOPIC}", "partitions": [0, 1]}}]}}
{{"record": "PartitionsAssigned", "member_id": "ann", "generation": 3,
 "partitions": [{{"topic": "orders", "topic_id": "{TOPIC}", "partitions": [0]}}]}}
{{"record": "PartitionsRunning", "member_id": "ann",
 "partitions": [{{"topic": "orders", "topic_id": "{TOPIC}", "partitions": [0]}}]}}
{{"record": "StandbysChanged", "standbys": {{"ben":
 [{{"topic": "orders", "topic_id": "{TOPIC}", "partitions": [0]}}], "cleo": []}}}}
{{"record": "PhaseEntered", "phase": "Stable"}}
{{"record": "GroupMarkedEphemeral"}}
{{"record": "HandlerAsked", "cause": "ann joined"}}
{{"record": "ItemAdopted", "item_id": "7"}}
{{"record": "ErrorShown", "text": ""}}
{{"record": "GroupDeleted"}}
{{"record": "ProtocolEntered", "protocol": "classic"}}
{{"record": "ClassicMemberAdded", "member": {{"member_id": "app-1", "session_timeout_ms": 45000,
 "rebalance_timeout_ms": 300000, "protocols": [["range", "AAE="]],
 "client_id": "app", "client_host": "10.0.0.1"}}}}
{{"record": "ClassicMemberChanged", "member": {{"member_id": "app-1", "session_timeout_ms": 45000,
 "rebalance_timeout_ms": 300000, "protocols": [["range", "AAI="], ["roundrobin", ""]]}}}}
{{"record": "InstanceReplaced", "old_member_id": "pod-0-1", "member": {{"member_id": "pod-0-2",
 "session_timeout_ms": 45000, "rebalance_timeout_ms": 300000, "protocols": [["range", "AAE="]],
 "group_instance_id": "pod-0"}}}}
{{"record": "ProtocolChosen", "protocol_type": "consumer", "protocol_name": "range", "leader": "app-1"}}
{{"record": "ClassicAssigned", "assignments": {{"app-1": "AAE="}}}}
{{"record": "OffsetsDeleted",
 "partitions": [{{"topic": "orders", "topic_id": "{TOPIC}", "partitions": [0]}}]}}
{{"record": "OffsetsSet",
 "offset_info": [{{"topic": "orders", "topic_id": "{TOPIC}", "partitions": [[0, 7, 0]]}}]}}
{{"record": "StrategySet", "assignor": "range", "rebalance_mode": "eager"}}
{{"record": "MemberQuarantined", "member_id": "ann", "length_ms": 1000, "why": "removed by olga: a test"}}
{{"record": "QuarantineEnded", "member_id": "ann"}}
{{"record": "RequestDecided", "request_id": "9", "asked": "delete_offsets", "principal": "olga",
 "reason": "a test", "answer": {{"verdict": "done", "changes": [["orders", "{TOPIC}", 0, 7, -1, ""]]}}}}
{{"record": "GenerationSkipped", "generation": 4}}
"""


def rows() -> list[dict[str, Any]]:
    decoder, found, text = json.JSONDecoder(), [], ROWS.strip()
    while text:
        row, end = decoder.raw_decode(text)
        found.append(row)
        text = text[end:].lstrip()
    return found


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["record"])
def test_a_row_of_the_first_version_is_a_record(row: dict[str, Any]) -> None:
    assert type(msgspec.convert(row, GroupRecord)).__name__ == row["record"]


def test_every_kind_of_record_has_its_row_here() -> None:
    assert [row["record"] for row in rows()] == [kind.__name__ for kind in get_args(GroupRecord)]


def test_a_rebalance_is_told_from_rows() -> None:
    at = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
    opened = {"record": "PhaseEntered", "phase": "PreparingRebalance"}
    ended = {"record": "PhaseEntered", "phase": "Stable"}
    turns = [rows()[:1], [opened], rows()[4:7], [ended]]
    journal = [Entry(at + timedelta(milliseconds=250 * n), "turn", turn) for n, turn in enumerate(turns)]
    (one,) = rebalances(journal)
    assert (one.started, one.ended) == (journal[1].at, journal[3].at)
    assert (one.cause, one.detail, one.generation, one.members) == ("member joined", "ann", 3, 1)
    assert (one.preparing_ms, one.completing_ms, one.moved) == (250, 250, 1)
    assert one.moves["orders", 1].before == "ben" and one.moves["orders", 1].after is None


def test_records_of_a_later_version_are_passed_over() -> None:
    at = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
    assert rebalances([Entry(at, "turn", ({"record": "SomethingNew"}, {"other": 1}))]) == []
