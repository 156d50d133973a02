"""ApiVersions is the table, Metadata is the view, in every version that is served."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kafkaserver.callers import (
    ALTER,
    ALTER_CONFIGS,
    ANYBODY,
    CONSUME,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
    WRITE,
    KafkaCaller,
)
from kafkaserver.cluster_answers import (
    BrokerView,
    MetadataView,
    PartitionView,
    TopicView,
    answer_api_versions,
)
from kafkaserver.metadata_answers import MetadataAnswer
from muster.kafkawire.api_table import (
    SERVED,
    ApiKey,
    RequestHeader,
    build,
    encode_body,
    encode_request,
    part,
    read_body,
    read_request_header,
    reply_body_start,
    request_class,
    response_class,
)

ORDERS, CLICKS = UUID(int=1), UUID(int=2)
VIEW = MetadataView.of(
    "cluster-1",
    [BrokerView(1, "one", 9092), BrokerView(2, "two", 9093, "rack-b")],
    [
        TopicView(
            "orders", ORDERS, (PartitionView(1, 5, (1, 2, 3), (1, 2)), PartitionView(3, 2, (3,), (3,)))
        ),
        TopicView("clicks", CLICKS, ()),
    ],
)


def _metadata(version: int, topics: list[dict[str, Any]] | None) -> Any:
    answer = _answered(VIEW, version, topics)
    start = reply_body_start(ApiKey.METADATA, version, answer)
    return read_body(response_class(ApiKey.METADATA, version), answer, start)


def _answered(view: MetadataView, version: int, topics: list[dict[str, Any]] | None) -> bytes:
    return _asked_of(view, version, topics).whole()[4:]


def _asked_of(view: MetadataView, version: int, topics: list[dict[str, Any]] | None) -> MetadataAnswer:
    shape = request_class(ApiKey.METADATA, version)
    topic = part(shape, "MetadataRequestTopic")
    asked = None if topics is None else tuple(build(topic, **given) for given in topics)
    body = build(
        shape,
        topics=asked,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    frame = memoryview(encode_request(ApiKey.METADATA, version, 1, "ann", body)[4:])
    return MetadataAnswer(view, read_request_header(frame), frame)


@pytest.mark.parametrize("version", range(13))
def test_many_partitions_are_laid_out_as_kio_would(version: int) -> None:
    """Half a second of kio's writer for ten thousand of them would stop the loop for everybody."""
    partitions = tuple(
        PartitionView(1 + number % 3, number, (1, 2, 3), (1, 2)[: 1 + number % 2]) for number in range(300)
    )
    view = MetadataView.of("cluster-1", VIEW.brokers.values(), [TopicView("orders", ORDERS, partitions)])
    answer = _answered(view, version, [{"name": "orders", "topic_id": None}, {"name": "x", "topic_id": None}])
    start = reply_body_start(ApiKey.METADATA, version, answer)
    body = read_body(response_class(ApiKey.METADATA, version), answer, start)
    assert len(body.topics[0].partitions) == 300
    assert encode_body(body) == answer[start:]


@pytest.mark.parametrize("version", range(13))
def test_every_version_tells_brokers_leaders_and_replicas(version: int) -> None:
    body = _metadata(version, [{"name": "orders", "topic_id": None}])
    assert [(b.node_id, b.host, b.port) for b in body.brokers] == [(1, "one", 9092), (2, "two", 9093)]
    (orders,) = body.topics
    first, second = orders.partitions
    assert (orders.name, first.leader_id, first.replica_nodes, first.isr_nodes) == (
        "orders",
        1,
        (1, 2, 3),
        (1, 2),
    )
    assert (int(second.error_code), second.leader_id) == (5, -1)
    if version >= 5:
        assert first.offline_replicas == (3,)
    if version >= 7:
        assert first.leader_epoch == 5


@pytest.mark.parametrize("version", range(5, 13))
def test_a_replica_is_offline_where_its_broker_is_away_or_its_log_failed(version: int) -> None:
    alike = PartitionView(1, 5, (1, 2, 3), (1, 2))
    failed = replace(alike, failed=(2, 9))
    topics = [TopicView("orders", ORDERS, (alike, failed, alike))]
    view = MetadataView.of("cluster-1", VIEW.brokers.values(), topics)
    answer = _answered(view, version, None)
    start = reply_body_start(ApiKey.METADATA, version, answer)
    body = read_body(response_class(ApiKey.METADATA, version), answer, start)
    assert [one.offline_replicas for one in body.topics[0].partitions] == [(3,), (2, 3), (3,)]
    assert {(one.leader_id, one.isr_nodes) for one in body.topics[0].partitions} == {(1, (1, 2))}
    assert encode_body(body) == answer[start:]


@pytest.mark.parametrize("version", range(13))
def test_all_topics_are_told_to_who_names_none(version: int) -> None:
    body = _metadata(version, [] if version == 0 else None)
    assert {topic.name for topic in body.topics} == {"orders", "clicks"}


READER = replace(ANYBODY, operations=frozenset({CONSUME}))
EVERYTHING = {READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}


@pytest.mark.parametrize("version", range(8, 13))
@pytest.mark.parametrize(
    ("caller", "operations"),
    [(READER, {READ, DESCRIBE, DESCRIBE_CONFIGS}), (ANYBODY, EVERYTHING)],
)
def test_who_asks_what_it_may_do_is_told(version: int, caller: KafkaCaller, operations: set[int]) -> None:
    for asks in (True, False):
        body = build(
            request_class(ApiKey.METADATA, version),
            topics=None,
            include_cluster_authorized_operations=asks,
            include_topic_authorized_operations=asks,
        )
        frame = memoryview(encode_request(ApiKey.METADATA, version, 1, "ann", body)[4:])
        answer = MetadataAnswer(VIEW, read_request_header(frame), frame, caller).whole()[4:]
        start = reply_body_start(ApiKey.METADATA, version, answer)
        told = read_body(response_class(ApiKey.METADATA, version), answer, start)
        bits = sum(1 << one for one in operations) if asks else -(2**31)
        assert {one.topic_authorized_operations for one in told.topics} == {bits}
        if version <= 10:
            expected = caller.cluster_operations if asks else -(2**31)
            assert told.cluster_authorized_operations == expected


def test_no_topics_are_told_to_who_asks_for_brokers_only() -> None:
    assert _metadata(1, []).topics == ()


def test_an_unknown_topic_is_refused_and_not_created() -> None:
    (topic,) = _metadata(9, [{"name": "nowhere"}]).topics
    assert (int(topic.error_code), topic.name) == (3, "nowhere")


@pytest.mark.parametrize("name", ["", ".", "..", "my topic", "orders/eu", "ä", "a" * 250])
@pytest.mark.parametrize("version", range(13))
def test_a_name_that_no_topic_can_have_is_refused_as_such(version: int, name: str) -> None:
    """A producer would wait a minute for a topic that is not there yet."""
    (topic,) = _metadata(version, [{"name": name, "topic_id": None}]).topics
    assert (int(topic.error_code), topic.name) == (17, name)


@pytest.mark.parametrize("name", ["a", "...", "A-b_c.9", "a" * 249])
def test_a_name_that_a_topic_could_have_is_that_of_an_unknown_one(name: str) -> None:
    (topic,) = _metadata(9, [{"name": name, "topic_id": None}]).topics
    assert int(topic.error_code) == 3


def test_what_is_asked_by_id_is_as_large_as_the_topic_that_has_it() -> None:
    """By an id beside another's name a hundred thousand partitions counted as one."""
    assert _asked_of(VIEW, 12, [{"name": "clicks", "topic_id": ORDERS}]).size == 3
    assert _asked_of(VIEW, 12, [{"name": None, "topic_id": ORDERS}]).size == 3


def test_topics_are_found_by_id() -> None:
    known, unknown = _metadata(
        12, [{"name": None, "topic_id": CLICKS}, {"name": None, "topic_id": UUID(int=9)}]
    ).topics
    assert (known.name, int(known.error_code)) == ("clicks", 0)
    assert int(unknown.error_code) == 100


@pytest.mark.parametrize(
    ("name", "topic_id", "told"),
    [
        ("orders", ORDERS, ("orders", ORDERS, 0)),
        ("nowhere", ORDERS, ("orders", ORDERS, 0)),
        ("orders", UUID(int=9), (None, UUID(int=9), 100)),
    ],
)
def test_of_name_and_id_the_id_says_which_topic(
    name: str, topic_id: UUID, told: tuple[str | None, UUID, int]
) -> None:
    """As with Kafka: the topic of this name may be another one by now, and that is not told instead."""
    asked: list[dict[str, Any]] = [{"name": name, "topic_id": topic_id}, {"name": None, "topic_id": topic_id}]
    (topic,) = _metadata(12, asked).topics
    assert (topic.name, topic.topic_id, int(topic.error_code)) == told


def test_the_controller_is_a_live_broker() -> None:
    assert _metadata(9, []).controller_id == 1


@pytest.mark.parametrize("version", range(5))
def test_api_versions_is_exactly_the_table(version: int) -> None:
    answer = answer_api_versions(RequestHeader(ApiKey.API_VERSIONS, version, 1, None, 8))[4:]
    body = read_body(response_class(ApiKey.API_VERSIONS, version), answer, 4)
    told = {key.api_key: (key.min_version, key.max_version) for key in body.api_keys}
    assert told == {api.key: (api.advertised_minimum, api.maximum) for api in SERVED.values()}


def test_a_version_that_is_too_high_gets_the_table_in_the_oldest_form() -> None:
    answer = answer_api_versions(RequestHeader(ApiKey.API_VERSIONS, 5, 1, None, 8))[4:]
    body = read_body(response_class(ApiKey.API_VERSIONS, 0), answer, 4)
    assert int(body.error_code) == 35
    assert len(body.api_keys) == len(SERVED)


@pytest.mark.parametrize("version", [10, 11])
def test_a_topic_without_a_name_is_refused_where_answers_have_names(version: int) -> None:
    """As Kafka: these versions have the field of ids, and no answer could leave the name out."""
    body = _metadata(version, [{"name": None, "topic_id": UUID(int=9)}, {"name": None, "topic_id": ORDERS}])
    assert [(topic.name, int(topic.error_code)) for topic in body.topics] == [("", 42), ("", 42)]


@pytest.mark.parametrize("version", [10, 11])
def test_an_id_is_refused_where_nobody_is_asked_by_it(version: int) -> None:
    body = _metadata(version, [{"name": "orders", "topic_id": ORDERS}, {"name": "clicks", "topic_id": None}])
    told = [(topic.name, topic.topic_id, int(topic.error_code)) for topic in body.topics]
    assert told == [("orders", ORDERS, 42), ("clicks", CLICKS, 0)]
