"""A broker refuses what is about groups, in every version, so that a client looks for the coordinator."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from kafkaserver.refusals import GROUP_REQUESTS, MOST_ELEMENTS, refuse_groups
from muster.kafkawire.api_table import SERVED, ApiKey, read_request_header
from muster.kafkawire.errors import FrameTooLarge
from tests.unit.kafkaserver.kafka_requests import Kept, body_of, frame, parts

SHORT = timedelta(seconds=1)


def test_no_more_is_refused_one_by_one_than_somebody_lost_asks_at_once() -> None:
    key, version = ApiKey.OFFSET_COMMIT, 9
    topics = tuple(
        parts(
            key,
            version,
            "OffsetCommitRequestTopic",
            name="orders",
            partitions=(
                parts(
                    key,
                    version,
                    "OffsetCommitRequestPartition",
                    partition_index=number,
                    committed_offset=5,
                    committed_metadata="",
                ),
            ),
        )
        for number in range(MOST_ELEMENTS)
    )
    said = {"group_id": "orders", "generation_id_or_member_epoch": 1, "member_id": "ann-1"}
    received = frame(key, version, **said, topics=topics)
    with pytest.raises(FrameTooLarge):
        refuse_groups(read_request_header(received), received, Kept())  # type: ignore[arg-type]


def versions(*keys: int) -> list[tuple[ApiKey, int]]:
    return [
        (ApiKey(key), version)
        for key in keys
        for version in range(SERVED[key].minimum, SERVED[key].maximum + 1)
    ]


def group_request(key: ApiKey, version: int) -> memoryview:
    """A request about group `orders` that names one of everything."""

    def one(name: str, /, **fields: Any) -> tuple[Any, ...]:
        return (parts(key, version, name, **fields),)

    fields: dict[str, Any] = {"group_id": "orders"}
    match key:
        case ApiKey.JOIN_GROUP:
            fields |= {"session_timeout": SHORT, "rebalance_timeout": SHORT, "member_id": "ann-1"}
            fields |= {"protocol_type": "consumer", "protocols": (), "group_instance_id": None}
        case ApiKey.SYNC_GROUP:
            fields |= {"generation_id": 1, "member_id": "ann-1", "assignments": ()}
        case ApiKey.HEARTBEAT:
            fields |= {"generation_id": 1, "member_id": "ann-1"}
        case ApiKey.LEAVE_GROUP if version >= 3:
            fields |= {"members": one("MemberIdentity", member_id="ann-1", group_instance_id=None)}
        case ApiKey.LEAVE_GROUP:
            fields |= {"member_id": "ann-1"}
        case ApiKey.OFFSET_COMMIT:
            place = one(
                "OffsetCommitRequestPartition", partition_index=3, committed_offset=5, committed_metadata=""
            )
            fields |= {"generation_id_or_member_epoch": 1, "member_id": "ann-1"}
            fields |= {"topics": one("OffsetCommitRequestTopic", name="clicks", partitions=place)}
        case ApiKey.OFFSET_FETCH if version >= 8:
            fields = {
                "groups": one("OffsetFetchRequestGroup", group_id="orders", topics=None, member_id=None)
            }
        case ApiKey.OFFSET_FETCH:
            fields |= {"topics": one("OffsetFetchRequestTopic", name="clicks", partition_indexes=(3,))}
        case ApiKey.OFFSET_DELETE:
            fields |= {"topics": ()}
        case ApiKey.DESCRIBE_GROUPS:
            fields = {"groups": ("orders",), "include_authorized_operations": False}
        case ApiKey.DELETE_GROUPS:
            fields = {"groups_names": ("orders",)}
        case _:
            fields = {}
    return frame(key, version, **fields)


def errors_of(body: Any) -> Iterator[int]:
    """Every error that an answer holds, at any depth."""
    if hasattr(body, "error_code"):
        yield int(body.error_code)
    for name in getattr(body, "__dataclass_fields__", ()):
        value = getattr(body, name)
        for element in value if isinstance(value, tuple) else ():
            yield from errors_of(element)


@pytest.mark.parametrize(("key", "version"), versions(*GROUP_REQUESTS))
def test_a_broker_coordinates_no_group(key: ApiKey, version: int) -> None:
    question, kept = group_request(key, version), Kept()
    refuse_groups(read_request_header(question), question, kept)  # type: ignore[arg-type]
    body = body_of(key, version, kept.pieces[0])
    told = [code for code in errors_of(body) if code]
    assert told == ([] if key is ApiKey.LIST_GROUPS else [16])


@pytest.mark.parametrize("version", range(10))
def test_a_refused_join_echoes_the_member_and_names_no_protocol(version: int) -> None:
    question, kept = group_request(ApiKey.JOIN_GROUP, version), Kept()
    refuse_groups(read_request_header(question), question, kept)  # type: ignore[arg-type]
    body = body_of(ApiKey.JOIN_GROUP, version, kept.pieces[0])
    assert (body.member_id, body.generation_id, body.leader, body.members) == ("ann-1", -1, "", ())
    assert body.protocol_name == ("" if version < 7 else None)
