"""FindCoordinator names the node that holds the group's shard, at every door (conformance 153, 154)."""

from typing import Any

import pytest

from kafkaserver.cluster_answers import BrokerView, MetadataView, answer_describe_cluster
from kafkaserver.finding import answer_find_coordinator
from kafkaserver.metadata_answers import MetadataAnswer
from muster.kafkawire.api_table import SERVED, ApiKey, read_request, read_request_header
from muster.kernel.shards import shard_of
from tests.unit.kafkaserver.kafka_requests import body_of, frame

NODES = (BrokerView(10_001, "one", 9302), BrokerView(10_002, "two", 9303))
VIEW = MetadataView.of(
    "cluster-1",
    [BrokerView(1, "broker", 9092)],
    [],
    NODES,
    {shard_of("orders"): 10_002, shard_of("gone"): 10_009},
)
VERSIONS = range(SERVED[ApiKey.FIND_COORDINATOR].maximum + 1)


def asked(version: int, *keys: str, key_type: int = 0) -> list[Any]:
    """The coordinators that are told; before version 4 there is one."""
    question = frame(
        ApiKey.FIND_COORDINATOR, version, key=keys[0], key_type=key_type, coordinator_keys=tuple(keys)
    )
    header = read_request_header(question)
    answer = answer_find_coordinator(VIEW, header, read_request(header, question))
    body = body_of(ApiKey.FIND_COORDINATOR, version, answer)
    return list(body.coordinators) if version >= 4 else [body]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_holder_of_the_shard_is_named(version: int) -> None:
    [found] = asked(version, "orders")
    assert (int(found.error_code), found.node_id, found.host, found.port) == (0, 10_002, "two", 9303)
    assert version < 1 or found.error_message is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("group", ["clicks", "gone"])
def test_a_shard_without_a_live_holder_is_not_available(version: int, group: str) -> None:
    [found] = asked(version, group)
    assert (int(found.error_code), found.node_id, found.host, found.port) == (15, -1, "", -1)


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("key_type", [1, 2, 77])
def test_transactions_and_what_nobody_knows_are_refused_with_a_text(version: int, key_type: int) -> None:
    [found] = asked(version, "orders", key_type=key_type)
    ends_librdkafka = key_type == 1 and version < 4
    assert int(found.error_code) == (53 if ends_librdkafka else 42)
    assert found.error_message


@pytest.mark.parametrize("version", VERSIONS[4:])
def test_several_keys_are_answered_one_by_one(version: int) -> None:
    found = asked(version, "orders", "clicks", "orders")
    assert [(one.key, int(one.error_code)) for one in found] == [("orders", 0), ("clicks", 15), ("orders", 0)]


def test_metadata_lists_nodes_beside_brokers() -> None:
    question = frame(
        ApiKey.METADATA,
        9,
        topics=(),
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    body = body_of(ApiKey.METADATA, 9, MetadataAnswer(VIEW, read_request_header(question), question).whole())
    assert [(one.node_id, one.host) for one in body.brokers] == [
        (1, "broker"),
        (10_001, "one"),
        (10_002, "two"),
    ]
    assert body.controller_id == 1


def test_a_node_takes_what_is_for_the_controller_while_no_broker_lives() -> None:
    assert MetadataView.of("cluster-1", (), (), VIEW.nodes.values()).controller_id == 10_001
    assert MetadataView.of("cluster-1", (), ()).controller_id == -1


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described_by_the_same_list(version: int) -> None:
    asked = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
    question = frame(ApiKey.DESCRIBE_CLUSTER, version, **asked)
    answer = answer_describe_cluster(VIEW, read_request_header(question), question)
    body = body_of(ApiKey.DESCRIBE_CLUSTER, version, answer)
    assert (body.cluster_id, body.controller_id) == ("cluster-1", 1)
    assert [one.broker_id for one in body.brokers] == [1, 10_001, 10_002]


def test_brokers_that_are_fenced_are_told_to_whoever_asks_for_them() -> None:
    away = BrokerView(4, "away", 9092)
    view = MetadataView.of("cluster-1", VIEW.brokers.values(), (), VIEW.nodes.values(), fenced=(away,))
    told = []
    for wants_fenced in (False, True):
        question = frame(
            ApiKey.DESCRIBE_CLUSTER,
            2,
            include_cluster_authorized_operations=wants_fenced,
            include_fenced_brokers=wants_fenced,
        )
        answer = answer_describe_cluster(view, read_request_header(question), question, operations=1 << 8)
        body = body_of(ApiKey.DESCRIBE_CLUSTER, 2, answer)
        told.append({one.broker_id: one.is_fenced for one in body.brokers})
        assert body.cluster_authorized_operations == (1 << 8 if wants_fenced else -(2**31))
    live = {1: False, 10_001: False, 10_002: False}
    assert told == [live, {**live, 4: True}]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("endpoint_type", "error"), [(2, 114), (0, 115), (3, 115), (-1, 115)])
def test_controllers_have_no_listener_to_ask_for_and_nothing_else_has(
    version: int, endpoint_type: int, error: int
) -> None:
    asked = {"include_cluster_authorized_operations": True, "include_fenced_brokers": True}
    question = frame(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=endpoint_type, **asked)
    answer = answer_describe_cluster(VIEW, read_request_header(question), question, operations=1 << 8)
    body = body_of(ApiKey.DESCRIBE_CLUSTER, version, answer)
    assert (int(body.error_code), body.brokers) == (error, ())
    assert (body.cluster_id, body.controller_id) == ("", -1)
    assert body.cluster_authorized_operations == -(2**31)
    assert body.error_message
