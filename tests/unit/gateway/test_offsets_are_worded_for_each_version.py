"""OffsetFetch and OffsetCommit: names become partitions of topics that exist, answers fit each version."""

from datetime import timedelta
from typing import Any, NoReturn
from uuid import UUID

import pytest

from gateway.translation import offsets
from gateway.translation.offsets import AskedOffsets, CommittedOffset, FoundOffset, FoundOfTopic
from groups.core.state import GroupRows
from kafkaserver.cluster_answers import PartitionView, TopicView
from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    read_body,
    read_request,
    reply_body_start,
    response_class,
)
from muster.kafkawire.api_table import read_request_header as header_of
from muster.kafkawire.offset_commits import AskedTopic, offset_commit_answer, read_offset_commit
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition
from tests.unit.kafkaserver.kafka_requests import frame, parts

ORDERS, OLD_CLICKS, CLICKS = UUID(int=1), UUID(int=2), UUID(int=3)
LED = PartitionView(1, 1, (1,), (1,))
TOPICS = {"orders": TopicView("orders", ORDERS, (LED, LED)), "clicks": TopicView("clicks", CLICKS, (LED,))}
ROWS = GroupRows(
    "readers",
    version=1,
    offsets={Partition("orders", ORDERS, 1): 5, Partition("clicks", OLD_CLICKS, 0): 9},
)
FETCHES, COMMITS = range(1, 10), range(2, 10)


def fetch_request(version: int, topics: Any) -> tuple[Any, Any]:
    """What is asked of the group `readers`; `topics` None: everything."""
    plural = "s" if version >= 8 else ""
    named = None
    if topics is not None:
        shape = f"OffsetFetchRequestTopic{plural}"
        named = tuple(
            parts(ApiKey.OFFSET_FETCH, version, shape, name=name, partition_indexes=numbers)
            for name, numbers in topics
        )
    group = {"group_id": "readers", "topics": named}
    if version >= 8:
        one = parts(ApiKey.OFFSET_FETCH, version, "OffsetFetchRequestGroup", **group, member_id=None)
        two = parts(
            ApiKey.OFFSET_FETCH,
            version,
            "OffsetFetchRequestGroup",
            group_id="others",
            topics=None,
            member_id=None,
        )
        group = {"groups": (one, two)}
    question = frame(ApiKey.OFFSET_FETCH, version, **group)
    return header_of(question), read_request(header_of(question), question)


@pytest.mark.parametrize("version", FETCHES)
def test_one_group_is_asked_before_version_8_and_several_since(version: int) -> None:
    asked = offsets.asked_offsets(*fetch_request(version, [("orders", (0, 1))]))
    first = AskedOffsets("readers", [("orders", (0, 1))])
    assert asked == ([first, AskedOffsets("others", None)] if version >= 8 else [first])


@pytest.mark.parametrize("version", FETCHES[1:])
def test_everything_is_asked_with_null_from_version_2_on(version: int) -> None:
    assert offsets.asked_offsets(*fetch_request(version, None))[0] == AskedOffsets("readers", None)


def found(
    asked: AskedOffsets, may_describe: offsets.MayTopic = offsets.anything
) -> dict[str, list[FoundOffset]]:
    """What is found, by topic."""
    told = offsets.found_offsets(asked, TOPICS, ROWS, may_describe)
    assert all(of_topic.partitions for of_topic in told.values())
    return {name: list(of_topic.offsets) for name, of_topic in told.items()}


def test_what_is_not_committed_and_what_nobody_knows_is_minus_one() -> None:
    asked = AskedOffsets("readers", [("orders", (0, 1, 7)), ("nowhere", (0,))])
    assert found(asked) == {
        "orders": [FoundOffset(0), FoundOffset(1, 5), FoundOffset(7)],
        "nowhere": [FoundOffset(0)],
    }


def test_a_topic_made_anew_has_nothing_committed() -> None:
    asked = AskedOffsets("readers", [("clicks", (0,))])
    assert found(asked) == {"clicks": [FoundOffset(0)]}


def test_everything_is_what_is_committed_for_topics_that_exist() -> None:
    assert found(AskedOffsets("readers", None)) == {"orders": [FoundOffset(1, 5)]}


def fetched(version: int, *told: tuple[AskedOffsets, offsets.FoundOffsets | ErrorCode]) -> Any:
    """What a client reads of the answer."""
    worded = [piece for asked, found in told for piece in offsets.worded_offsets(version, asked, found)]
    body = offsets.offsets_answer(version, len(told), worded)
    return read_body(response_class(ApiKey.OFFSET_FETCH, version), body, 0)


class OnlyByName(dict[str, TopicView]):
    """Topics of a cluster that has a hundred thousand."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("all topics are walked through for one group")

    items = values = keys = __iter__


def test_everything_of_a_group_costs_what_it_has_committed() -> None:
    told = offsets.found_offsets(AskedOffsets("readers", None), OnlyByName(TOPICS), ROWS)
    assert told.keys() == {"orders"}


@pytest.mark.parametrize("version", FETCHES)
def test_what_was_found_is_told(version: int) -> None:
    asked = AskedOffsets("readers", [("orders", (1,))])
    told = {"orders": FoundOfTopic(1, [FoundOffset(1, 5, 3, "note")])}
    body = fetched(version, (asked, told))
    group = body.groups[0] if version >= 8 else body
    if version >= 2:
        assert int(group.error_code) == 0
    [topic] = group.topics
    [one] = topic.partitions
    assert (topic.name, one.partition_index, one.committed_offset, one.metadata) == ("orders", 1, 5, "note")
    assert int(one.error_code) == 0
    if version >= 5:
        assert one.committed_leader_epoch == 3


@pytest.mark.parametrize("version", FETCHES)
def test_thousands_of_partitions_are_told_in_pieces(version: int) -> None:
    many = [FoundOffset(number, 5, 3) for number in range(2 * offsets.PIECE_PARTITIONS)]
    asked = AskedOffsets("readers", [("orders", [one.partition for one in many])])
    told = {"orders": FoundOfTopic(len(many), many)}
    assert len(list(offsets.worded_offsets(version, asked, told))) == 5
    body = fetched(version, (asked, told))
    [topic] = (body.groups[0] if version >= 8 else body).topics
    assert [one.partition_index for one in topic.partitions] == [one.partition for one in many]


@pytest.mark.parametrize("version", FETCHES)
def test_a_refusal_stands_where_the_version_has_room_for_it(version: int) -> None:
    asked = AskedOffsets("readers", [("orders", (1,))])
    body = fetched(version, (asked, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    if version >= 8:
        assert [(one.group_id, int(one.error_code), one.topics) for one in body.groups] == [
            ("readers", 14, ())
        ]
    elif version >= 2:
        assert (int(body.error_code), body.topics) == (14, ())
    else:
        assert [int(one.error_code) for one in body.topics[0].partitions] == [14]


def test_one_group_may_be_refused_and_the_next_be_told() -> None:
    first, second = AskedOffsets("readers", None), AskedOffsets("others", None)
    body = fetched(
        9, (first, ErrorCode.NOT_COORDINATOR), (second, {"orders": FoundOfTopic(1, [FoundOffset(0, 1)])})
    )
    assert [(one.group_id, int(one.error_code), len(one.topics)) for one in body.groups] == [
        ("readers", 16, 0),
        ("others", 0, 1),
    ]


@pytest.mark.parametrize("version", FETCHES[1:])
def test_what_is_not_available_is_told_so_that_old_clients_look_again(version: int) -> None:
    """Java before 3.9 fails for good on COORDINATOR_NOT_AVAILABLE (conformance 12)."""
    asked = AskedOffsets("readers", None)
    body = fetched(version, (asked, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert int((body.groups[0] if version >= 8 else body).error_code) == 16


def commit_request(version: int, **fields: Any) -> Any:
    usual = {
        "partition_index": 1,
        "committed_offset": 5,
        "committed_leader_epoch": 3,
        "committed_metadata": "note",
    }
    one = parts(ApiKey.OFFSET_COMMIT, version, "OffsetCommitRequestPartition", **{**usual, **fields})
    topic = parts(ApiKey.OFFSET_COMMIT, version, "OffsetCommitRequestTopic", name="orders", partitions=(one,))
    question = frame(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id="readers",
        generation_id_or_member_epoch=2,
        member_id="ann-1",
        group_instance_id="till-1",
        retention_time=timedelta(hours=1),
        topics=(topic,),
    )
    return read_offset_commit(header_of(question), question)


@pytest.mark.parametrize("version", COMMITS)
def test_a_commit_means_the_same_in_every_version(version: int) -> None:
    request = commit_request(version)
    instance = "till-1" if version >= 7 else None
    assert request[:4] == ("readers", 2, "ann-1", instance)
    epoch, retention_ms = (3 if version >= 6 else -1), (3_600_000 if version <= 4 else -1)
    assert offsets.asked_positions(request, TOPICS) == (
        {Partition("orders", ORDERS, 1): CommittedOffset(5, epoch, "note", retention_ms)},
        {},
    )


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"partition_index": 2}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition_index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"committed_metadata": "x" * 4_097}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ({"committed_metadata": "ä" * 4_097}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ({"committed_metadata": "\N{OWL}" * 2_049}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ({"committed_metadata": "a\0b"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_committed_is_refused_for_itself(fields: dict[str, Any], error: ErrorCode) -> None:
    request = commit_request(9, **fields)
    number = fields.get("partition_index", 1)
    assert offsets.asked_positions(request, TOPICS) == ({}, {("orders", number): error})


@pytest.mark.parametrize("offset", [-1, -2, -(2**63)])
def test_a_negative_offset_is_asked_of_the_group(offset: int) -> None:
    """By −2 kafkajs says that it begins where the log does: the offset that it had is gone."""
    asked, refused = offsets.asked_positions(commit_request(9, committed_offset=offset), TOPICS)
    assert ([one.offset for one in asked.values()], refused) == ([offset], {})


@pytest.mark.parametrize("order", [1, -1])
def test_of_a_partition_that_is_named_twice_and_refused_once_nothing_is_stored(order: int) -> None:
    name, positions = commit_request(9).topics[0]
    twice = [*positions, (1, 6, -1, "x" * 4_097)][::order]
    request = commit_request(9)._replace(topics=[AskedTopic(name, twice)])
    refused = {("orders", 1): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert offsets.asked_positions(request, TOPICS) == ({}, refused)


@pytest.mark.parametrize("metadata", ["x" * 4_096, "語" * 4_096, "\N{OWL}" * 2_048], ids=["x", "word", "owl"])
def test_metadata_is_as_long_as_its_java_string(metadata: str) -> None:
    """As Kafka measures it, whose setting speaks of bytes: a name in Chinese has three bytes a character."""
    asked, refused = offsets.asked_positions(commit_request(9, committed_metadata=metadata), TOPICS)
    assert ([one.metadata for one in asked.values()], refused) == ([metadata], {})


def test_no_metadata_is_empty_metadata() -> None:
    asked, _ = offsets.asked_positions(commit_request(9, committed_metadata=None), TOPICS)
    assert [one.metadata for one in asked.values()] == [""]


@pytest.mark.parametrize("version", COMMITS)
def test_each_partition_is_answered(version: int) -> None:
    header = RequestHeader(ApiKey.OFFSET_COMMIT, version, 7, "ann", 0)
    topics = commit_request(version).topics
    frame = offset_commit_answer(header, topics, ErrorCode.ILLEGAL_GENERATION)
    start = reply_body_start(ApiKey.OFFSET_COMMIT, version, frame[4:])
    told = read_body(response_class(ApiKey.OFFSET_COMMIT, version), frame[4:], start)
    [topic] = told.topics
    assert (topic.name, [(one.partition_index, int(one.error_code)) for one in topic.partitions]) == (
        "orders",
        [(1, 22)],
    )


@pytest.mark.parametrize("version", COMMITS)
def test_a_group_that_nobody_knows_is_told_as_such_since_version_9(version: int) -> None:
    told = offsets.worded(version, ErrorCode.GROUP_ID_NOT_FOUND)
    assert told is (ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION)
    assert offsets.worded(version, ErrorCode.UNKNOWN_MEMBER_ID) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_topic_that_may_not_be_read_is_refused_where_it_is_named_and_left_out_of_everything() -> None:
    asked = AskedOffsets("readers", [("orders", (1,))])
    [one] = found(asked, lambda topic: False)["orders"]
    assert one == FoundOffset(1, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert found(AskedOffsets("readers", None), lambda topic: False) == {}
    refused = {("orders", 1): ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert offsets.asked_positions(commit_request(9), TOPICS, lambda topic: False) == ({}, refused)
    body = fetched(9, (asked, {"orders": FoundOfTopic(1, [one])}))
    assert [int(told.error_code) for told in body.groups[0].topics[0].partitions] == [29]
