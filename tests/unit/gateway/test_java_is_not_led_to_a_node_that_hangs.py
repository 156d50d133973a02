"""Java is told of brokers alone where it names topics: it would ask a node that hangs, and wait for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafkaserver.cluster_answers import BrokerView, MetadataView
from muster.kafkawire.api_table import SERVED, ApiKey, build, encode_request, part, request_class
from runtime.ports import LiveNode
from tests.unit.broker_data_plane.planes import Client, broker, client
from tests.unit.gateway.doors import KEY, kafka_door

JAVA, LIBRDKAFKA = "apache-kafka-java", "librdkafka"
VERSION = 12
NODE = 10_001


async def introduce(peer: Client, software: str, version: int = SERVED[ApiKey.API_VERSIONS].maximum) -> None:
    """Say of which software it is, as clients do before anything else."""
    shape = request_class(ApiKey.API_VERSIONS, version)
    body = build(shape, client_software_name=software, client_software_version="4.3.0")
    told = await peer.ask(ApiKey.API_VERSIONS, version, body)
    assert int(told.error_code) == 0


async def listed(peer: Client, topics: tuple[str, ...] | None = ("orders",)) -> set[int]:
    """Whom Metadata lists to who asks for these topics; None: for all."""
    shape = request_class(ApiKey.METADATA, VERSION)
    named = part(shape, "MetadataRequestTopic")
    asked = None if topics is None else tuple(named(topic_id=UUID(int=0), name=topic) for topic in topics)
    body = build(
        shape, topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    return {int(one.node_id) for one in (await peer.ask(ApiKey.METADATA, VERSION, body)).brokers}


@asynccontextmanager
async def at_a_broker(folder: Path, *, alone: bool = False) -> AsyncIterator[Client]:
    async with broker(folder) as one, client(one.client_port) as peer:
        one.obey(1)
        brokers = [] if alone else [one.plane.view.brokers[1]]
        node = BrokerView(NODE, "127.0.0.1", 9_301)
        one.plane.view = MetadataView.of("test", brokers, one.plane.view.topics.values(), [node])
        yield peer


@asynccontextmanager
async def at_a_node(_folder: Path, *, alone: bool = False) -> AsyncIterator[Client]:
    async with kafka_door(KEY) as door, client(door.port) as peer:
        if alone:
            cluster_id, _, topics, partitions = door.node.learnt
            door.listener._cluster._known.learn(cluster_id, [], topics, partitions)
        live = (LiveNode("run", "node-1", "ws://127.0.0.1:8001", node_id=NODE, kafka="127.0.0.1:9301"),)
        door.node.live_nodes = lambda: live  # type: ignore[method-assign]
        yield peer


DOORS = pytest.mark.parametrize("at_a_door", [at_a_broker, at_a_node])


@DOORS
async def test_java_that_names_topics_is_told_of_brokers_alone(at_a_door: Any, tmp_path: Path) -> None:
    async with at_a_door(tmp_path) as peer:
        await introduce(peer, JAVA)
        assert await listed(peer) == {1}


@DOORS
@pytest.mark.parametrize("topics", [(), None])
async def test_kafkas_tools_are_told_of_nodes(
    at_a_door: Any, tmp_path: Path, topics: tuple[str, ...] | None
) -> None:
    """They ask for no topic, or for all; the groups of a node are asked for where it is listed."""

    async with at_a_door(tmp_path) as peer:
        await introduce(peer, JAVA)
        assert await listed(peer, topics) == {1, NODE}


@DOORS
async def test_clients_that_drop_who_is_not_listed_are_told_of_nodes(at_a_door: Any, tmp_path: Path) -> None:
    async with at_a_door(tmp_path) as peer:
        assert await listed(peer) == {1, NODE}
        await introduce(peer, LIBRDKAFKA)
        assert await listed(peer) == {1, NODE}


@DOORS
async def test_where_no_broker_lives_nodes_are_listed(at_a_door: Any, tmp_path: Path) -> None:
    """An empty list is no answer to Java: it would keep the one before."""

    async with at_a_door(tmp_path, alone=True) as peer:
        await introduce(peer, JAVA)
        assert await listed(peer) == {NODE}


@DOORS
async def test_who_says_its_software_in_no_way_that_can_be_read_is_answered(
    at_a_door: Any, tmp_path: Path
) -> None:
    async with at_a_door(tmp_path) as peer:
        shape = request_class(ApiKey.API_VERSIONS, 3)
        body = build(shape, client_software_name=JAVA, client_software_version="4.3.0")
        whole = encode_request(ApiKey.API_VERSIONS, 3, 7, "ann", body)[4:]
        cut = bytes(whole[: len(whole) - 4])
        answer = await peer.exchange(len(cut).to_bytes(4, "big") + cut)
        assert answer[:6] == (7).to_bytes(4, "big") + bytes(2)
        assert await listed(peer) == {1, NODE}
