"""JoinGroup, SyncGroup, LeaveGroup: what each version says becomes one event, and one answer each version."""

from datetime import timedelta
from typing import Any

import pytest

from coordinator.core.events import (
    ConnectionId,
    Departure,
    Join,
    JoinAnswer,
    JoinedMember,
    Leave,
    LeaveAnswer,
    Leaver,
    Sync,
    SyncAnswer,
    Waiter,
)
from gateway.translation import groups
from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    encode_body,
    read_body,
    read_request,
    response_class,
)
from muster.kafkawire.api_table import read_request_header as header_of
from muster.kernel.error_codes import ErrorCode
from tests.unit.kafkaserver.kafka_requests import frame, parts

SEAT, WAITER = ConnectionId("kafka-1"), Waiter(7)
JOINS, SYNCS, LEAVES = range(10), range(6), range(6)


def asked(key: ApiKey, version: int, **fields: Any) -> tuple[RequestHeader, Any]:
    question = frame(key, version, **fields)
    header = header_of(question)
    return header, read_request(header, question)


def answered(key: ApiKey, version: int, body: Any) -> Any:
    """The answer as a client reads it."""
    encoded = body if isinstance(body, bytes) else encode_body(body)
    return read_body(response_class(key, version), encoded, 0)


def join_request(version: int, **fields: Any) -> tuple[RequestHeader, Any]:
    protocol = parts(ApiKey.JOIN_GROUP, version, "JoinGroupRequestProtocol", name="range", metadata=b"orders")
    given: dict[str, Any] = {
        "group_id": "orders",
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(minutes=5),
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": (protocol,),
        "reason": "because",
    }
    return asked(ApiKey.JOIN_GROUP, version, **{**given, **fields})


def joined(version: int, **fields: Any) -> Join:
    header, request = join_request(version, **fields)
    return groups.join_event(header, request, SEAT, WAITER, "random", "/127.0.0.1")


@pytest.mark.parametrize("version", JOINS)
def test_a_join_means_the_same_in_every_version(version: int) -> None:
    event = joined(version)
    assert (event.connection, event.waiter, event.client_id, event.client_host) == (
        SEAT,
        WAITER,
        "ann",
        "/127.0.0.1",
    )
    assert (event.member_id, event.protocol_type) == ("", "consumer")
    assert event.protocols == (("range", b"orders"),)
    assert event.session_timeout_ms == 10_000
    assert event.fresh_member_id == "ann-random"


@pytest.mark.parametrize("version", JOINS)
def test_before_version_1_the_session_timeout_is_the_rebalance_timeout_too(version: int) -> None:
    assert joined(version).rebalance_timeout_ms == (10_000 if version == 0 else 300_000)


@pytest.mark.parametrize("version", JOINS)
def test_who_has_no_id_must_come_back_with_one_from_version_4_on(version: int) -> None:
    assert joined(version).must_know_id is (version >= 4)


@pytest.mark.parametrize("version", JOINS)
def test_a_leader_can_be_told_from_version_9_on_that_it_need_not_assign(version: int) -> None:
    assert joined(version).answers_skip is (version >= 9)


@pytest.mark.parametrize("version", JOINS[5:])
def test_a_static_member_gets_its_id_from_its_instance(version: int) -> None:
    event = joined(version, group_instance_id="till-1")
    assert (event.group_instance_id, event.fresh_member_id) == ("till-1", "till-1-random")


@pytest.mark.parametrize("version", JOINS)
def test_a_reason_is_heard_from_version_8_on(version: int) -> None:
    assert joined(version).reason == ("because" if version >= 8 else "")


def test_what_no_row_can_hold_is_refused_before_any_group_is_asked() -> None:
    assert groups.refused_join(join_request(9, member_id="a\0b")[1]) is ErrorCode.INVALID_REQUEST
    assert groups.refused_join(join_request(9, group_instance_id="a\0b")[1]) is ErrorCode.INVALID_REQUEST
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.refused_join(join_request(9, protocol_type="a\0b")[1]) is inconsistent
    assert groups.refused_join(join_request(9)[1]) is None


def test_what_would_stand_in_every_owners_memory_has_a_bound() -> None:
    """An id is made of the instance's, and must fit into the strings of versions before 6."""
    most, much = groups.INSTANCE_LENGTH, groups.SAID_BYTES
    assert groups.refused_join(join_request(9, group_instance_id="i" * most)[1]) is None
    too_long = join_request(9, group_instance_id="i" * (most + 1))[1]
    assert groups.refused_join(too_long) is ErrorCode.INVALID_REQUEST
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.refused_join(join_request(9, protocol_type="c" * 256)[1]) is inconsistent

    def says(metadata: bytes) -> Any:
        said = parts(ApiKey.JOIN_GROUP, 9, "JoinGroupRequestProtocol", name="range", metadata=metadata)
        return join_request(9, protocols=(said,))[1]

    assert groups.refused_join(says(bytes(much - 100))) is None
    assert groups.refused_join(says(bytes(much))) is ErrorCode.INVALID_REQUEST


MEMBERS = (JoinedMember("ann-1", None, b"a"), JoinedMember("ben-1", "till-1", b"b"))


@pytest.mark.parametrize("version", JOINS)
def test_a_leader_hears_of_all_members(version: int) -> None:
    answer = JoinAnswer(WAITER, ErrorCode.NONE, "ann-1", 3, "consumer", "range", "ann-1", MEMBERS, True)
    body = answered(ApiKey.JOIN_GROUP, version, groups.join_answer(version, answer))
    assert (int(body.error_code), body.generation_id, body.protocol_name) == (0, 3, "range")
    assert (body.leader, body.member_id) == ("ann-1", "ann-1")
    assert [(one.member_id, one.metadata) for one in body.members] == [("ann-1", b"a"), ("ben-1", b"b")]
    if version >= 5:
        assert [one.group_instance_id for one in body.members] == [None, "till-1"]
    if version >= 7:
        assert body.protocol_type == "consumer"
    if version >= 9:
        assert body.skip_assignment is True


@pytest.mark.parametrize("version", JOINS)
def test_no_protocol_is_empty_before_version_7_and_null_since(version: int) -> None:
    answer = JoinAnswer(WAITER, ErrorCode.UNKNOWN_MEMBER_ID, "ann-1")
    body = answered(ApiKey.JOIN_GROUP, version, groups.join_answer(version, answer))
    assert (int(body.error_code), body.generation_id, body.leader, body.member_id) == (25, -1, "", "ann-1")
    assert body.protocol_name == ("" if version < 7 else None)
    if version >= 7:
        assert body.protocol_type is None


def sync_request(version: int, **fields: Any) -> tuple[RequestHeader, Any]:
    given = parts(
        ApiKey.SYNC_GROUP, version, "SyncGroupRequestAssignment", member_id="ben-1", assignment=b"b"
    )
    usual: dict[str, Any] = {
        "group_id": "orders",
        "generation_id": 3,
        "member_id": "ann-1",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": (given,),
    }
    return asked(ApiKey.SYNC_GROUP, version, **{**usual, **fields})


@pytest.mark.parametrize("version", SYNCS)
def test_a_sync_means_the_same_in_every_version(version: int) -> None:
    event = groups.sync_event(sync_request(version)[1], SEAT, WAITER)
    stated = ("consumer", "range") if version >= 5 else (None, None)
    assert event == Sync(
        connection=SEAT,
        waiter=WAITER,
        member_id="ann-1",
        generation=3,
        protocol_type=stated[0],
        protocol_name=stated[1],
        assignments={"ben-1": b"b"},
    )


@pytest.mark.parametrize("version", SYNCS)
@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_from_version_5_on_a_sync_must_name_its_protocol(version: int, missing: str) -> None:
    header, request = sync_request(version, **{missing: None})
    refused = groups.refused_sync(header, request)
    assert refused is (ErrorCode.INCONSISTENT_GROUP_PROTOCOL if version >= 5 else None)


@pytest.mark.parametrize("version", SYNCS)
def test_an_assignment_is_told(version: int) -> None:
    answer = SyncAnswer(WAITER, ErrorCode.NONE, "consumer", "range", b"mine")
    body = answered(ApiKey.SYNC_GROUP, version, groups.sync_answer(version, answer))
    assert (int(body.error_code), body.assignment) == (0, b"mine")
    if version >= 5:
        assert (body.protocol_type, body.protocol_name) == ("consumer", "range")


def leave_request(version: int) -> tuple[RequestHeader, Any]:
    if version < 3:
        return asked(ApiKey.LEAVE_GROUP, version, group_id="orders", member_id="ann-1")
    entry = {"member_id": "ann-1", "group_instance_id": None, "reason": "because"}
    one = parts(ApiKey.LEAVE_GROUP, version, "MemberIdentity", **entry)
    two = parts(
        ApiKey.LEAVE_GROUP, version, "MemberIdentity", member_id="", group_instance_id="till-1", reason=None
    )
    return asked(ApiKey.LEAVE_GROUP, version, group_id="orders", members=(one, two))


@pytest.mark.parametrize("version", LEAVES)
def test_one_member_leaves_before_version_3_and_several_since(version: int) -> None:
    event = groups.leave_event(*leave_request(version), SEAT, WAITER)
    ann = Leaver("ann-1", None, "because" if version >= 5 else "")
    many = (ann, Leaver("", "till-1")) if version >= 3 else (ann,)
    assert event == Leave(connection=SEAT, waiter=WAITER, members=many)


@pytest.mark.parametrize("version", LEAVES)
def test_an_entrys_error_stands_at_the_top_before_version_3(version: int) -> None:
    departure = Departure("ann-1", None, ErrorCode.UNKNOWN_MEMBER_ID)
    answer = LeaveAnswer(WAITER, ErrorCode.NONE, (departure,))
    body = answered(ApiKey.LEAVE_GROUP, version, groups.leave_answer(version, answer))
    if version < 3:
        assert int(body.error_code) == 25
    else:
        assert int(body.error_code) == 0
        assert [(one.member_id, int(one.error_code)) for one in body.members] == [("ann-1", 25)]


@pytest.mark.parametrize("version", LEAVES)
def test_a_leave_that_is_refused_says_so_at_the_top(version: int) -> None:
    body = groups.leave_answer(version, LeaveAnswer(WAITER, ErrorCode.NOT_COORDINATOR))
    assert int(answered(ApiKey.LEAVE_GROUP, version, body).error_code) == 16
