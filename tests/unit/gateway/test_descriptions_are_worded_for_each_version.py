"""DescribeGroups and ListGroups as Kafka's tools of every version read them (conformance 140 to 143)."""

from typing import Any

import pytest

from coordinator.describing import DescribedGroup, DescribedMember, ListedGroup
from gateway.translation import listing
from muster.kafkawire.api_table import ApiKey, encode_body, read_body, read_request, response_class
from muster.kafkawire.api_table import read_request_header as header_of
from muster.kernel.error_codes import ErrorCode
from tests.unit.kafkaserver.kafka_requests import frame

ANN = DescribedMember("ann-1", "till-1", "ann", "/127.0.0.1", b"orders", b"orders-0")
BEN = DescribedMember("ben-1", None, "", "", b"", 300 * b"ben")
STABLE = DescribedGroup("orders", ErrorCode.NONE, "Stable", "consumer", "range", (ANN, BEN))


def read(key: ApiKey, version: int, answer: bytes) -> list[Any]:
    """The groups of an answer, which is to the byte what Kafka's schemas make of it."""
    body = read_body(response_class(key, version), answer, 0)
    assert encode_body(body) == answer
    return list(body.groups)


def described(version: int, *groups: DescribedGroup, operations: Any = listing.not_asked) -> list[Any]:
    pieces = [piece for group in groups for piece in listing.described_group(version, group, operations)]
    answer = listing.describe_answer(version, len(groups), pieces)
    return read(ApiKey.DESCRIBE_GROUPS, version, answer)


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described(version: int) -> None:
    [group] = described(version, STABLE)
    assert (int(group.error_code), group.group_id, group.group_state) == (0, "orders", "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    ann, ben = group.members
    assert (ann.member_id, ann.client_id, ann.client_host) == ("ann-1", "ann", "/127.0.0.1")
    assert (ann.member_metadata, ann.member_assignment) == (b"orders", b"orders-0")
    assert (ben.member_metadata, ben.member_assignment) == (b"", 300 * b"ben")
    if version >= 4:
        assert (ann.group_instance_id, ben.group_instance_id) == ("till-1", None)


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_does_not_exist_is_dead_and_an_error_since_version_6(version: int) -> None:
    gone = DescribedGroup("orders", ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    [group] = described(version, gone)
    assert (int(group.error_code), group.group_state) == (69 if version >= 6 else 0, "Dead")
    if version >= 6:
        assert group.error_message


@pytest.mark.parametrize("version", range(3, 7))
def test_what_may_be_done_with_a_group_is_told_where_no_error_is(version: int) -> None:
    told = described(
        version,
        STABLE,
        DescribedGroup("clicks", ErrorCode.GROUP_ID_NOT_FOUND, "Dead"),
        DescribedGroup("workers", ErrorCode.NOT_COORDINATOR),
        operations=len,
    )
    operations = [group.authorized_operations for group in told]
    assert operations == [len("orders"), len("clicks") if version < 6 else -(2**31), -(2**31)]


@pytest.mark.parametrize("version", range(7))
def test_a_group_of_another_node_is_refused(version: int) -> None:
    elsewhere = DescribedGroup("orders", ErrorCode.NOT_COORDINATOR)
    [group] = described(version, elsewhere)
    assert int(group.error_code) == 16


LISTED = [
    ListedGroup("orders", "Stable", "consumer"),
    ListedGroup("clicks", "Empty", ""),
    ListedGroup("workers", "PreparingRebalance", "connect"),
]


def told(version: int, **asked: Any) -> list[Any]:
    question = frame(ApiKey.LIST_GROUPS, version, **asked)
    request = read_request(header_of(question), question)
    listed = list(filter(None, listing.listed_groups(version, request, LISTED)))
    return read(ApiKey.LIST_GROUPS, version, listing.list_answer(version, listed))


@pytest.mark.parametrize("version", range(6))
def test_all_groups_are_listed(version: int) -> None:
    groups = told(version)
    assert [(one.group_id, one.protocol_type) for one in groups] == [
        ("orders", "consumer"),
        ("clicks", ""),
        ("workers", "connect"),
    ]
    if version >= 4:
        assert [one.group_state for one in groups] == ["Stable", "Empty", "PreparingRebalance"]
    if version >= 5:
        assert {one.group_type for one in groups} == {"classic"}


@pytest.mark.parametrize("version", [4, 5])
def test_states_are_asked_for_in_any_case(version: int) -> None:
    assert [one.group_id for one in told(version, states_filter=("stable", "EMPTY"))] == ["orders", "clicks"]


def test_types_are_asked_for_in_any_case() -> None:
    assert len(told(5, types_filter=("Classic",))) == 3
    assert told(5, types_filter=("consumer",)) == []
