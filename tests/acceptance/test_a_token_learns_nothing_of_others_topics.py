"""Whoever has rights to some names only is told of another one what is told of one that does not exist.

Every request, at a broker and at a node: the answers about the topic and the group `payments`, which are
there, and about `paymentz`, which is neither, differ in the name alone; nothing about everything names it.
"""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from muster.kafkawire.api_table import SERVED, ApiKey, build, part, request_class
from standalone.redis import Redis
from tests.integration.replication.cluster import Cluster
from tests.unit.broker_data_plane.planes import Client, client
from tests.unit.kafkaserver.test_each_request_says_which_rights_it_needs import TABLE, made, version_of

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
SECRET, NOTHING, VALUE = "payments", "paymentz", "123456789"
SOON: Final = timedelta(seconds=5)
ROLES: Final = ("viewer", "consumer", "producer", "operator", "admin")


@pytest.fixture
def cluster(tmp_path: Path, fresh_database: str, redis_server: Redis) -> Iterator[Cluster]:
    """One node and two brokers that ask everybody for a token."""
    made = Cluster(tmp_path / "cluster", fresh_database, redis_server, MUSTER_KAFKA_SASL="1")
    yield made
    made.stop()


def asked(key: ApiKey, topic: str) -> list[Any]:
    """Each way in which this request may ask about one topic."""
    shape = request_class(key, SERVED[key].maximum)

    def one(kind: str, **values: Any) -> tuple[Any, ...]:
        return (build(part(shape, kind), **values),)

    match key:
        case ApiKey.METADATA:
            topics = one("MetadataRequestTopic", name=topic, topic_id=None)
            rest = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
            return [build(shape, topics=topics, **rest)]
        case ApiKey.CREATE_PARTITIONS:
            topics = one("CreatePartitionsTopic", name=topic, count=9, assignments=None)
            return [build(shape, topics=topics, timeout=SOON, validate_only=only) for only in (True, False)]
        case ApiKey.DELETE_TOPICS:
            named = one("DeleteTopicState", name=topic, topic_id=None)
            return [build(shape, topics=named, timeout=SOON)]
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            places = one("ReassignablePartition", partition_index=0, replicas=(2,))
            topics = one("ReassignableTopic", name=topic, partitions=places)
            return [build(shape, topics=topics, timeout=SOON, allow_replication_factor_change=True)]
        case ApiKey.LIST_PARTITION_REASSIGNMENTS:
            topics = one("ListPartitionReassignmentsTopics", name=topic, partition_indexes=(0,))
            return [build(shape, topics=topics, timeout=SOON)]
        case ApiKey.ELECT_LEADERS:
            topics = one("TopicPartitions", topic=topic, partitions=(0,))
            return [
                build(shape, election_type=kind, topic_partitions=topics, timeout=SOON) for kind in (0, 1)
            ]
        case ApiKey.DESCRIBE_CONFIGS:
            what = one(
                "DescribeConfigsResource", resource_type=2, resource_name=topic, configuration_keys=None
            )
            return [build(shape, resources=what, include_synonyms=True, include_documentation=False)]
        case ApiKey.ALTER_CONFIGS:
            config = one("AlterableConfig", name="retention.ms", value="1000")
            what = one("AlterConfigsResource", resource_type=2, resource_name=topic, configs=config)
            return [build(shape, resources=what, validate_only=only) for only in (True, False)]
        case ApiKey.INCREMENTAL_ALTER_CONFIGS:
            config = one("AlterableConfig", name="retention.ms", value="1000", config_operation=0)
            what = one("AlterConfigsResource", resource_type=2, resource_name=topic, configs=config)
            return [build(shape, resources=what, validate_only=only) for only in (True, False)]
        case ApiKey.DELETE_RECORDS:
            places = one("DeleteRecordsPartition", partition_index=0, offset=-1)
            topics = one("DeleteRecordsTopic", name=topic, partitions=places)
            return [build(shape, topics=topics, timeout=SOON)]
        case _:
            places = one("ListOffsetsPartition", partition_index=0, current_leader_epoch=-1, timestamp=-1)
            topics = one("ListOffsetsTopic", name=topic, partitions=places)
            return [build(shape, replica_id=-1, isolation_level=0, topics=topics, timeout=SOON)]


ABOUT_ONE: Final = (
    ApiKey.METADATA,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_TOPICS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ELECT_LEADERS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DELETE_RECORDS,
    ApiKey.LIST_OFFSETS,
)


EVERY_REQUEST: Final = [ApiKey(key) for key in TABLE if key != ApiKey.INIT_PRODUCER_ID]
"""But the one that names nothing, and is answered with another id each time."""


def about_everything() -> list[tuple[ApiKey, Any]]:
    """Requests that name nothing, and mean all."""
    shapes = {key: request_class(key, SERVED[key].maximum) for key in SERVED}
    rest = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    return [
        (ApiKey.METADATA, build(shapes[ApiKey.METADATA], topics=None, **rest)),
        (
            ApiKey.LIST_GROUPS,
            build(shapes[ApiKey.LIST_GROUPS], states_filter=(), types_filter=()),
        ),
        (ApiKey.DESCRIBE_LOG_DIRS, build(shapes[ApiKey.DESCRIBE_LOG_DIRS], topics=None)),
        (
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            build(shapes[ApiKey.LIST_PARTITION_REASSIGNMENTS], topics=None, timeout=SOON),
        ),
        (
            ApiKey.ELECT_LEADERS,
            build(shapes[ApiKey.ELECT_LEADERS], election_type=0, topic_partitions=None, timeout=SOON),
        ),
    ]


def by_id(topic_id: UUID) -> list[tuple[ApiKey, Any]]:
    """Requests that name a topic by its id alone."""
    metadata = request_class(ApiKey.METADATA, 12)
    named = build(part(metadata, "MetadataRequestTopic"), name=None, topic_id=topic_id)
    rest = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    deletion = request_class(ApiKey.DELETE_TOPICS, 6)
    gone = build(part(deletion, "DeleteTopicState"), name=None, topic_id=topic_id)
    return [
        (ApiKey.METADATA, build(metadata, topics=(named,), **rest)),
        (ApiKey.DELETE_TOPICS, build(deletion, topics=(gone,), timeout=SOON)),
    ]


async def prove(door: Client, name: str, token: str) -> None:
    """SASL PLAIN."""
    handshake = build(request_class(ApiKey.SASL_HANDSHAKE, 1), mechanism="PLAIN")
    assert int((await door.ask(ApiKey.SASL_HANDSHAKE, 1, handshake)).error_code) == 0
    proof = f"\0{name}\0{token}".encode()
    answer = await door.ask(
        ApiKey.SASL_AUTHENTICATE, 2, build(request_class(ApiKey.SASL_AUTHENTICATE, 2), auth_bytes=proof)
    )
    assert int(answer.error_code) == 0, answer


async def compare(port: int, name: str, token: str, secret_id: UUID) -> list[str]:
    """What one token at one door is told that it should not be."""
    leaks = []
    async with client(port) as door:
        await prove(door, name, token)
        for key in ABOUT_ONE:
            told = []
            for topic in (SECRET, NOTHING):
                answers = [repr(await door.ask(key, SERVED[key].maximum, one)) for one in asked(key, topic)]
                told.append([answer.replace(topic, "IT") for answer in answers])
            if told[0] != told[1]:
                leaks.append(f"{name} {key.name}: {told[0]} and {told[1]}")
        for key in EVERY_REQUEST:
            asking = [made(key, (one,)) for one in (SECRET, NOTHING)]
            about = [repr(await door.ask(key, version_of(key), body)) for body in asking]
            if about[0].replace(SECRET, "IT") != about[1].replace(NOTHING, "IT"):
                leaks.append(f"{name} {key.name}: {about}")
        # An id is no secret, as in Kafka; whose it is, is one.
        for key, body in (*about_everything(), *by_id(secret_id)):
            answer = repr(await door.ask(key, SERVED[key].maximum, body))
            if SECRET in answer or VALUE in answer:
                leaks.append(f"{name} {key.name}: {answer}")
    return leaks


def test_no_request_tells_a_topic_that_is_there_from_one_that_is_not(cluster: Cluster) -> None:
    tokens = {"root": cluster.manage("create_token", "root", "--role", "admin").split()[-1]}
    for role in ROLES:
        scope = ("--topic", "orders*", "--group", "orders*")
        tokens[role] = cluster.manage("create_token", role, "--role", role, *scope).split()[-1]
    cluster.start((1, 2))
    proof = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"}
    who = {"sasl.username": "root", "sasl.password": tokens["root"]}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **proof, **who})
    wanted = NewTopic(SECRET, num_partitions=2, replication_factor=1, config={"retention.ms": VALUE})
    admin.create_topics([wanted], operation_timeout=20.0)[SECRET].result(40)
    mine = {"bootstrap.servers": cluster.bootstrap, "group.id": SECRET, "log_level": 0}
    reader = Consumer(mine | proof | who)
    reader.commit(offsets=[TopicPartition(SECRET, 0, 0)], asynchronous=False)
    reader.close()
    (((secret_id,),), before) = everything_of_the_secret(cluster)
    (address,) = cluster.query("SELECT addresses ->> 'kafka' FROM node_session WHERE NOT ended")[0]
    ports = [port for port, _ in cluster.ports.values()] + [int(str(address).rpartition(":")[2])]
    leaks = []
    for port in ports:
        for role in ROLES:
            leaks += asyncio.run(compare(port, role, tokens[role], UUID(str(secret_id))))
    assert leaks == []
    assert everything_of_the_secret(cluster)[1] == before


def everything_of_the_secret(cluster: Cluster) -> tuple[Any, Any]:
    """Its id; its rows."""
    of = "FROM topic JOIN partition USING (topic_id) WHERE name = %s ORDER BY partition"
    rows = cluster.query(f"SELECT configs, partition_count, partition, assigned, adding, leader {of}", SECRET)
    committed = "SELECT partition, committed_offset, version FROM committed_offset WHERE group_name = %s"
    rows += cluster.query(committed, SECRET)
    return cluster.query("SELECT topic_id FROM topic WHERE name = %s", SECRET), rows
