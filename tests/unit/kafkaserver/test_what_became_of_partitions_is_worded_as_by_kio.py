"""Elections and reassignments are answered by hand: byte for byte as kio's writer would."""

from itertools import product
from typing import Any

import pytest

from kafkaserver.admin import elections, reassignments
from kafkaserver.admin.outcomes import Outcome
from muster.kafkawire.api_table import (
    LONGEST_MESSAGE,
    SERVED,
    ApiKey,
    RequestHeader,
    build,
    encode_reply,
    part,
    response_class,
)
from muster.kernel.error_codes import ErrorCode

Told = list[tuple[str, list[Outcome]]]

ELECT, ALTER = ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS
ELECTED = "ReplicaElectionResult", "PartitionResult", "topic", "partition_result", "partition_id"
ALTERED = (
    "ReassignableTopicResponse",
    "ReassignablePartitionResponse",
    "name",
    "partitions",
    "partition_index",
)
TOPICS = ("orders", "", "ü-日本", "x" * 249)
WHYS = ("", "es fehlt Broker 9 für diese", "日" * LONGEST_MESSAGE, "there is no topic " + "y" * 32_760)
CODES = (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
SOME: Told = [
    (topic, [(number, code, why) for number, (code, why) in enumerate(product(CODES, WHYS))])
    for topic in TOPICS
]
MANY: Told = [("orders", [(number, CODES[2], WHYS[1]) for number in range(10_000)])]
TOLD = pytest.mark.parametrize("told", [[], SOME, MANY], ids=["none", "some", "many"])


def versions(key: ApiKey) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", range(SERVED[key].minimum, SERVED[key].maximum + 1))


def topics(shape: Any, told: Told, names: tuple[str, str, str, str, str]) -> Any:
    """As kio has them."""
    owner, place, name, many, number_name = names
    return tuple(
        build(
            part(shape, owner),
            **{
                name: topic,
                many: tuple(
                    build(
                        part(shape, place),
                        **{number_name: number, "error_code": code, "error_message": why or None},
                    )
                    for number, code, why in outcomes
                ),
            },
        )
        for topic, outcomes in told
    )


@TOLD
@versions(ELECT)
def test_elections(version: int, told: Told) -> None:
    shape = response_class(ELECT, version)
    body = build(shape, error_code=ErrorCode.NONE, replica_election_results=topics(shape, told, ELECTED))
    results = {(topic, number): (code, why) for topic, one in told for number, code, why in one}
    answer = elections._answered(RequestHeader(ELECT, version, 7, "test", 0), ErrorCode.NONE, results)
    assert answer == encode_reply(ELECT, version, 7, body)


@TOLD
@pytest.mark.parametrize("may", [True, False])
@versions(ALTER)
def test_reassignments(version: int, told: Told, may: bool) -> None:
    shape = response_class(ALTER, version)
    body = build(
        shape,
        allow_replication_factor_change=may,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=topics(shape, told, ALTERED),
    )
    header = RequestHeader(ALTER, version, 7, "test", 0)
    answer = reassignments._answered(header, told, may_change_factor=may)
    assert answer == encode_reply(ALTER, version, 7, body)
