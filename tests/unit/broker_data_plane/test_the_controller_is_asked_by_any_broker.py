"""InitProducerId and CreateTopics are forwarded; without a link the client is told to try again."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.forwarding import REQUESTS, Forwarding
from kafkaserver.admin.asking import ControllerUnreachable, TooLargeToForward
from kafkaserver.admin.topics import MOST_TOPICS
from kafkaserver.callers import KafkaCaller
from kafkaserver.producer_ids import ProducerIdBlock
from muster.kafkawire.api_table import ApiKey, build, part, request_class
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scopes import EVERYTHING, Scope
from muster.messages.link.from_broker import (
    CreateTopics,
    FromBroker,
    GrownTopic,
    NamedTopic,
    NewTopic,
    WantedReplicas,
)
from muster.messages.link.to_broker import CreatedTopic, OngoingReassignment, ReassignmentResult, TopicResult
from tests.unit.broker_data_plane.planes import ORDERS, broker, client
from tests.unit.broker_data_plane.test_a_fetch_tells_nothing_of_others_topics import comes_in

SET_FOR_TOPIC, STARTED_WITH, DEFAULT = 1, 4, 5


def _init(version: int, transactional_id: str | None = None, **had: Any) -> Any:
    shape = request_class(ApiKey.INIT_PRODUCER_ID, version)
    return shape(transactional_id=transactional_id, transaction_timeout=timedelta(0), **had)


def _create(version: int, *names: str) -> Any:
    shape = request_class(ApiKey.CREATE_TOPICS, version)
    topic = part(shape, "CreatableTopic")
    topics = tuple(
        build(topic, name=name, num_partitions=6, replication_factor=3, assignments=(), configs=())
        for name in names
    )
    return build(shape, topics=topics, timeout=timedelta(seconds=1), validate_only=False)


@pytest.mark.parametrize("version", range(5))
async def test_every_producer_gets_an_id_of_its_own(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as ben:
        one.controller.blocks = [ProducerIdBlock(100, 2), ProducerIdBlock(500, 1)]
        given = []
        for asker in (ann, ben, ann):
            body = await asker.ask(ApiKey.INIT_PRODUCER_ID, version, _init(version))
            given.append((int(body.error_code), body.producer_id, body.producer_epoch))
        assert given == [(0, 100, 0), (0, 101, 0), (0, 500, 0)]


async def test_without_a_link_a_producer_is_told_to_try_again(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        body = await ann.ask(ApiKey.INIT_PRODUCER_ID, 4, _init(4))
        assert ErrorCode(int(body.error_code)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (body.producer_id, body.producer_epoch) == (-1, -1)
        one.controller.blocks = [ProducerIdBlock(100, 1)]
        assert (await ann.ask(ApiKey.INIT_PRODUCER_ID, 4, _init(4))).producer_id == 100


async def test_transactions_are_refused(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        body = await ann.ask(ApiKey.INIT_PRODUCER_ID, 4, _init(4, "payments"))
        assert ErrorCode(int(body.error_code)) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("had", [{"producer_id": 7}, {"producer_epoch": 3}])
async def test_half_of_what_a_producer_was_is_refused(tmp_path: Path, had: dict[str, Any]) -> None:
    """As Kafka does; whoever states both is given another id."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.blocks = [ProducerIdBlock(100, 2)]
        body = await ann.ask(ApiKey.INIT_PRODUCER_ID, 3, _init(3, **had))
        assert (ErrorCode(int(body.error_code)), body.producer_id) == (ErrorCode.INVALID_REQUEST, -1)
        body = await ann.ask(ApiKey.INIT_PRODUCER_ID, 3, _init(3, producer_id=7, producer_epoch=3))
        assert (int(body.error_code), body.producer_id) == (0, 100)


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_created_where_the_controller_says(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        taken = CreatedTopic(name="clicks", error=ErrorCode.TOPIC_ALREADY_EXISTS, text="it is there")
        made = CreatedTopic(name="orders", topic_id=UUID(int=1), partition_count=6, replication_factor=3)
        one.controller.created = (taken, made)
        body = await ann.ask(ApiKey.CREATE_TOPICS, version, _create(version, "orders", "clicks"))
        assert [(t.name, int(t.error_code)) for t in body.topics] == [("orders", 0), ("clicks", 36)]
        assert [t.error_message for t in body.topics] == [None, "it is there"]
        if version >= 5:
            assert [(t.num_partitions, t.replication_factor) for t in body.topics] == [(6, 3), (-1, -1)]
        (asked,) = one.controller.asked
        assert [(topic.name, topic.partition_count) for topic in asked] == [("orders", 6), ("clicks", 6)]


@pytest.mark.parametrize("version", range(5, 8))
async def test_all_configs_of_a_new_topic_are_told_with_their_sources(tmp_path: Path, version: int) -> None:
    """Null beside no error is what Java's AdminClient breaks on."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        made = CreatedTopic(name="orders", topic_id=UUID(int=1), partition_count=6, replication_factor=3)
        one.controller.created = (made, CreatedTopic(name="clicks", topic_id=UUID(int=2)))
        request = _create(version, "orders", "clicks")
        shape = request_class(ApiKey.CREATE_TOPICS, version)
        # It is stored without the spaces, as Kafka reads it, and told so.
        config = part(shape, "CreatableTopicConfig")(name="retention.ms", value=" 1000 ")
        with_config = replace(request.topics[0], configs=(config,))
        body = await ann.ask(
            ApiKey.CREATE_TOPICS, version, replace(request, topics=(with_config, request.topics[1]))
        )
        told = [{one.name: (one.value, one.config_source) for one in topic.configs} for topic in body.topics]
        assert [topic.name for topic in body.topics] == ["orders", "clicks"]
        assert told[0]["retention.ms"] == ("1000", SET_FOR_TOPIC)
        assert told[1]["retention.ms"] == ("604800000", DEFAULT)
        # What the broker was started with.
        assert told[0]["segment.bytes"] == told[1]["segment.bytes"] == ("10000", STARTED_WITH)


async def test_topics_that_are_created_too_quickly_are_told_when_to_ask_again(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.created = ()
        names = [f"orders-{number}" for number in range(MOST_TOPICS)]
        await ann.ask(ApiKey.CREATE_TOPICS, 7, _create(7, *names))
        body = await ann.ask(ApiKey.CREATE_TOPICS, 7, _create(7, "clicks"))
        assert [int(topic.error_code) for topic in body.topics] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
        assert body.throttle_time > timedelta(0)
        body = await ann.ask(ApiKey.CREATE_TOPICS, 4, _create(4, "clicks"))
        assert [int(topic.error_code) for topic in body.topics] == [ErrorCode.POLICY_VIOLATION]
        assert len(one.controller.asked) == 1


async def test_without_a_link_no_topic_is_created(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        body = await ann.ask(ApiKey.CREATE_TOPICS, 7, _create(7, "orders"))
        assert ErrorCode(int(body.topics[0].error_code)) is ErrorCode.NOT_CONTROLLER


async def test_a_topic_named_twice_in_one_request_is_created_by_neither(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.created = ()
        body = await ann.ask(ApiKey.CREATE_TOPICS, 7, _create(7, "orders", "orders"))
        assert [int(topic.error_code) for topic in body.topics] == [ErrorCode.INVALID_REQUEST]
        assert one.controller.asked == []


async def test_a_name_that_no_topic_can_have_spoils_no_other(tmp_path: Path) -> None:
    """A node stores the request for the controller, and could not store U+0000."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.created = (CreatedTopic(name="orders", topic_id=UUID(int=1)),)
        body = await ann.ask(ApiKey.CREATE_TOPICS, 7, _create(7, "a\0b", "orders"))
        assert [int(topic.error_code) for topic in body.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION, 0]
        assert [[topic.name for topic in asked] for asked in one.controller.asked] == [["orders"]]


async def test_a_partition_assigned_twice_is_refused_and_spoils_no_other_topic(tmp_path: Path) -> None:
    """The last one would be taken, and nobody could tell whether it is meant."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.created = (CreatedTopic(name="clicks", topic_id=UUID(int=2)),)
        request = _create(7, "orders", "clicks")
        given = part(request_class(ApiKey.CREATE_TOPICS, 7), "CreatableReplicaAssignment")
        assigned = tuple(given(partition_index=0, broker_ids=(broker_id,)) for broker_id in (1, 2))
        orders = replace(request.topics[0], num_partitions=-1, replication_factor=-1, assignments=assigned)
        body = await ann.ask(ApiKey.CREATE_TOPICS, 7, replace(request, topics=(orders, request.topics[1])))
        assert [int(topic.error_code) for topic in body.topics] == [ErrorCode.INVALID_REPLICA_ASSIGNMENT, 0]
        assert [[topic.name for topic in topics] for topics in one.controller.asked] == [["clicks"]]


async def test_who_waits_for_one_block_is_refused_with_it(tmp_path: Path) -> None:
    """One after the other, each with a time limit of its own, the last would wait for minutes."""
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as ben:
        one.controller.delay = asyncio.Event()
        for asker in (ann, ben):
            asker.send(ApiKey.INIT_PRODUCER_ID, 4, _init(4))
        assert await ann.is_quiet()
        one.controller.delay.set()
        answers = [await asker.hear() for asker in (ann, ben)]
        codes = [ErrorCode(int(body.error_code)) for body in answers]
        assert codes == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
        assert one.controller.asked_for_blocks == 1


async def test_more_topics_than_a_turn_should_write_are_refused(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        names = [f"orders-{number}" for number in range(MOST_TOPICS + 1)]
        body = await ann.ask(ApiKey.CREATE_TOPICS, 7, _create(7, *names))
        assert {int(topic.error_code) for topic in body.topics} == {ErrorCode.POLICY_VIOLATION}
        assert one.controller.asked == []


async def test_a_request_that_the_link_does_not_carry_costs_no_link() -> None:
    sent: list[FromBroker] = []

    def send(frame: FromBroker) -> bool:
        sent.append(frame)
        return True

    forwarding = Forwarding(send)
    forwarding.link_ready()
    assignments: dict[int, tuple[int, ...]] = {number: (1, 2, 3) for number in range(200_000)}
    with pytest.raises(TooLargeToForward):
        topic = NewTopic(name="orders", assignments=assignments)
        await forwarding.ask(CreateTopics(topics=(topic,), timeout_ms=1_000))
    assert sent == []


async def test_who_waits_for_a_link_counts_among_those_who_wait() -> None:
    """Else all that gathered without a link would go out on the next at once, and be too much for it."""
    sent: list[FromBroker] = []

    def send(frame: FromBroker) -> bool:
        sent.append(frame)
        return True

    forwarding = Forwarding(send)
    wish = CreateTopics(topics=(), timeout_ms=60_000)
    waiting = [asyncio.create_task(forwarding.ask(wish)) for _ in range(REQUESTS)]
    await asyncio.sleep(0)
    with pytest.raises(ControllerUnreachable, match="too many"):
        async with asyncio.timeout(10):
            await forwarding.ask(wish)
    forwarding.link_ready()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(sent) == REQUESTS
    forwarding.link_lost()
    await asyncio.gather(*waiting, return_exceptions=True)
    forwarding.link_ready()
    later = asyncio.create_task(forwarding.ask(wish))
    await asyncio.sleep(0)
    assert len(sent) == REQUESTS + 1
    later.cancel()


def _delete(version: int, *names: str, ids: tuple[UUID, ...] = ()) -> Any:
    shape = request_class(ApiKey.DELETE_TOPICS, version)
    if version < 6:
        return build(shape, topic_names=names, timeout=timedelta(seconds=1))
    topic = part(shape, "DeleteTopicState")
    topics = [build(topic, name=name, topic_id=None) for name in names]
    topics += [build(topic, name=None, topic_id=topic_id) for topic_id in ids]
    return build(shape, topics=tuple(topics), timeout=timedelta(seconds=1))


@pytest.mark.parametrize("version", range(1, 7))
async def test_topics_are_deleted_as_the_controller_says(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        gone = TopicResult(name="orders", topic_id=UUID(int=1))
        missing = TopicResult(name="clicks", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text="no")
        one.controller.results = (gone, missing)
        body = await ann.ask(ApiKey.DELETE_TOPICS, version, _delete(version, "orders", "clicks"))
        assert [(t.name, int(t.error_code)) for t in body.responses] == [("orders", 0), ("clicks", 3)]
        if version >= 5:
            assert [t.error_message for t in body.responses] == [None, "no"]
        if version >= 6:
            assert [t.topic_id for t in body.responses] == [UUID(int=1), None]
        assert one.controller.changed == [(NamedTopic(name="orders"), NamedTopic(name="clicks"))]


async def test_a_timeout_of_nothing_is_for_whoever_does_not_wait(tmp_path: Path) -> None:
    """What librdkafka documents of it: it returns at once. Kafka would have done nothing then."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.results = (TopicResult(name="orders", topic_id=UUID(int=1)),)
        asked = replace(_delete(6, "orders"), timeout=timedelta(0))
        body = await ann.ask(ApiKey.DELETE_TOPICS, 6, asked)
        assert [int(t.error_code) for t in body.responses] == [0]
        assert one.controller.changed == [(NamedTopic(name="orders"),)]


async def test_a_topic_is_deleted_by_its_id(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        one.controller.results = (TopicResult(name="orders", topic_id=ORDERS),)
        body = await ann.ask(ApiKey.DELETE_TOPICS, 6, _delete(6, ids=(ORDERS,)))
        assert [(t.name, t.topic_id, int(t.error_code)) for t in body.responses] == [("orders", ORDERS, 0)]
        assert one.controller.changed == [(NamedTopic(topic_id=ORDERS),)]


@pytest.mark.parametrize("version", [1, 6])
async def test_what_is_named_twice_is_answered_once_and_not_deleted(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.results = (TopicResult(name="clicks", topic_id=UUID(int=2)),)
        asked = _delete(version, "orders", "clicks", "orders", "orders", ids=(ORDERS, ORDERS))
        body = await ann.ask(ApiKey.DELETE_TOPICS, version, asked)
        told = [(t.name, int(t.error_code)) for t in body.responses]
        twice = ErrorCode.INVALID_REQUEST
        assert told == [("orders", twice), ("clicks", 0), (None, twice)][: 2 + (version > 5)]
        assert one.controller.changed == [(NamedTopic(name="clicks"),)]


@pytest.mark.parametrize("version", range(1, 7))
async def test_an_empty_name_is_that_of_no_topic(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        body = await ann.ask(ApiKey.DELETE_TOPICS, version, _delete(version, ""))
        told = [(t.name, ErrorCode(int(t.error_code))) for t in body.responses]
        assert told == [("", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert one.controller.changed == []


@pytest.mark.parametrize(("name", "topic_id"), [(None, None), ("", ORDERS), ("orders", ORDERS)])
async def test_a_topic_is_named_in_one_way(tmp_path: Path, name: str | None, topic_id: UUID | None) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        shape = request_class(ApiKey.DELETE_TOPICS, 6)
        named = build(part(shape, "DeleteTopicState"), name=name, topic_id=topic_id)
        asked = build(shape, topics=(named, named), timeout=timedelta(seconds=1))
        body = await ann.ask(ApiKey.DELETE_TOPICS, 6, asked)
        told = [(t.name, t.topic_id, ErrorCode(int(t.error_code))) for t in body.responses]
        assert told == [(name, topic_id, ErrorCode.INVALID_REQUEST)]
        assert one.controller.changed == []


async def test_of_a_topic_that_this_door_has_not_heard_of_the_controller_is_asked(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.results = (TopicResult(name="orders", topic_id=ORDERS),)
        body = await ann.ask(ApiKey.DELETE_TOPICS, 6, _delete(6, ids=(ORDERS,)))
        assert [(t.name, t.topic_id, int(t.error_code)) for t in body.responses] == [("orders", ORDERS, 0)]
        assert one.controller.changed == [(NamedTopic(topic_id=ORDERS),)]


async def test_but_not_by_whom_names_bound(tmp_path: Path) -> None:
    """Whether the caller may change it depends on its name."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        bounded = KafkaCaller("ann", "ann", "", frozenset({"operate"}), Scope.of(("clicks",)), EVERYTHING)
        await comes_in(one, ann, bounded)
        body = await ann.ask(ApiKey.DELETE_TOPICS, 6, _delete(6, ids=(UUID(int=9),)))
        told = [(t.name, t.topic_id, int(t.error_code)) for t in body.responses]
        assert told == [(None, UUID(int=9), ErrorCode.UNKNOWN_TOPIC_ID)]
        assert one.controller.changed == []


async def test_a_topic_that_is_named_twice_gets_no_partitions_and_one_answer(tmp_path: Path) -> None:
    shape = request_class(ApiKey.CREATE_PARTITIONS, 3)
    wanted = part(shape, "CreatePartitionsTopic")
    asked = [("orders", 7), ("clicks", 7), ("orders", 8)]
    topics = tuple(build(wanted, name=name, count=count, assignments=None) for name, count in asked)
    request = build(shape, topics=topics, timeout=timedelta(seconds=1), validate_only=False)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.results = (TopicResult(name="clicks", topic_id=UUID(int=2)),)
        body = await ann.ask(ApiKey.CREATE_PARTITIONS, 3, request)
        told = [(t.name, int(t.error_code)) for t in body.results]
        assert told == [("orders", ErrorCode.INVALID_REQUEST), ("clicks", 0)]
        assert one.controller.changed == [(GrownTopic(name="clicks", partition_count=7),)]


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added_as_the_controller_says(tmp_path: Path, version: int) -> None:
    shape = request_class(ApiKey.CREATE_PARTITIONS, version)
    given = build(part(shape, "CreatePartitionsAssignment"), broker_ids=(1, 2))
    topics = tuple(
        build(part(shape, "CreatePartitionsTopic"), name=name, count=7, assignments=assignments)
        for name, assignments in (("orders", (given,)), ("clicks", None))
    )
    request = build(shape, topics=topics, timeout=timedelta(seconds=1), validate_only=False)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        no = TopicResult(name="clicks", error=ErrorCode.INVALID_PARTITIONS, text="it has them")
        one.controller.results = (TopicResult(name="orders", topic_id=UUID(int=1)), no)
        body = await ann.ask(ApiKey.CREATE_PARTITIONS, version, request)
        assert [(t.name, int(t.error_code)) for t in body.results] == [("orders", 0), ("clicks", 37)]
        assert one.controller.changed == [
            (
                GrownTopic(name="orders", partition_count=7, assignments=((1, 2),)),
                GrownTopic(name="clicks", partition_count=7),
            )
        ]


async def test_without_a_link_whoever_changes_topics_is_told_to_try_again(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        body = await ann.ask(ApiKey.DELETE_TOPICS, 6, _delete(6, "orders", "clicks"))
        assert [int(t.error_code) for t in body.responses] == [ErrorCode.NOT_CONTROLLER] * 2


@pytest.mark.parametrize("version", range(2))
async def test_partitions_are_moved_as_the_controller_says(tmp_path: Path, version: int) -> None:
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    shape = request_class(key, version)
    places = tuple(
        build(part(shape, "ReassignablePartition"), partition_index=number, replicas=replicas)
        for number, replicas in ((0, (1, 2)), (1, None))
    )
    topic = build(part(shape, "ReassignableTopic"), name="orders", partitions=places)
    request = build(
        shape, topics=(topic,), timeout=timedelta(seconds=1), allow_replication_factor_change=False
    )
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        no = ReassignmentResult(
            topic="orders", partition=1, error=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, text="no"
        )
        one.controller.reassigned = (ReassignmentResult(topic="orders", partition=0), no)
        body = await ann.ask(key, version, request)
        [told] = body.responses
        assert [(p.partition_index, int(p.error_code)) for p in told.partitions] == [(0, 0), (1, 85)]
        assert one.controller.wished == [
            (
                WantedReplicas(topic="orders", partition=0, replicas=(1, 2)),
                WantedReplicas(topic="orders", partition=1),
            )
        ]
        # Version 0 cannot say it, and changes it, as in Kafka.
        assert one.controller.may_change_factor == [version == 0]
        assert getattr(body, "allow_replication_factor_change", None) is (None if version == 0 else False)


@pytest.mark.parametrize("asked", [None, (("orders", 0), ("orders", 1))])
async def test_what_moves_is_listed_by_topic(
    tmp_path: Path, asked: tuple[tuple[str, int], ...] | None
) -> None:
    key = ApiKey.LIST_PARTITION_REASSIGNMENTS
    shape = request_class(key, 0)
    topics = None
    if asked is not None:
        numbers = tuple(number for _, number in asked)
        named = build(
            part(shape, "ListPartitionReassignmentsTopics"), name="orders", partition_indexes=numbers
        )
        topics = (named,)
    request = build(shape, topics=topics, timeout=timedelta(seconds=1))
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        body = await ann.ask(key, 0, request)
        assert int(body.error_code) == ErrorCode.NOT_CONTROLLER
        one.controller.ongoing = (OngoingReassignment("orders", 0, (4, 1), (4,), (1,)),)
        body = await ann.ask(key, 0, request)
        [topic] = body.topics
        [place] = topic.partitions
        assert (topic.name, place.partition_index, place.replicas) == ("orders", 0, (4, 1))
        assert (place.adding_replicas, place.removing_replicas) == ((4,), (1,))
        assert one.controller.listed == [asked, asked]
