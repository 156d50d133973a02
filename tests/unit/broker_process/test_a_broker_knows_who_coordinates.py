"""A broker answers for the nodes: who they are, and which of them coordinates a group."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from broker import listener
from broker.process import BrokerProcess
from kafkaserver.finding import GROUP, TRANSACTION
from muster.kafkawire.api_table import ApiKey, build, request_class
from muster.kernel.error_codes import ErrorCode
from muster.kernel.shards import shard_of
from muster.messages.link.rows import NodeRow
from muster.messages.link.to_broker import Nodes
from tests.unit.broker_data_plane.planes import Client, client
from tests.unit.broker_process.controller_side import ControllerSide, linked_broker

SHARDS = 64
ONE = NodeRow("node-1", "ws://127.0.0.1:1", 10_001, "127.0.0.1:9192")
TWO = NodeRow("node-2", "ws://127.0.0.1:2", 10_002, "[::1]:9292")
WITHOUT_KAFKA = NodeRow("node-3", "ws://127.0.0.1:3", 10_003)


async def _found(ann: Client, key: str, key_type: int = GROUP) -> tuple[int, int, str, int]:
    shape = request_class(ApiKey.FIND_COORDINATOR, 3)
    body = await ann.ask(ApiKey.FIND_COORDINATOR, 3, build(shape, key=key, key_type=key_type))
    return int(body.error_code), int(body.node_id), body.host, body.port


async def _listed(ann: Client) -> list[tuple[int, str, int]]:
    asked = build(
        request_class(ApiKey.METADATA, 12),
        topics=(),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    body = await ann.ask(ApiKey.METADATA, 12, asked)
    return [(int(one.node_id), one.host, one.port) for one in body.brokers]


async def _until_told(controller: ControllerSide, link: ServerConnection, told: Nodes, ask: Any) -> None:
    """Say it, and wait until `ask` shows it."""
    await controller.say(link, told)
    while not await ask():
        await asyncio.sleep(0.005)


async def test_clients_are_told_of_nodes_and_of_leases_that_move(tmp_path: Path) -> None:
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller):
        link, hello = await controller.bind()
        await controller.apply(link, version=5)
        port = int(hello.endpoints["client"].rpartition(":")[2])
        async with client(port) as ann:
            brokers = [(1, "127.0.0.1", 9001), (2, "127.0.0.1", 9002)]
            assert await _listed(ann) == brokers
            assert (await _found(ann, "billing"))[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE

            owners = [0] * SHARDS
            for holder in (ONE, TWO):
                owners[shard_of("billing")] = holder.node_id
                told = Nodes(nodes=(ONE, TWO, WITHOUT_KAFKA), owners=tuple(owners))

                async def is_found(holder: NodeRow = holder) -> bool:
                    return (await _found(ann, "billing"))[1] == holder.node_id

                await _until_told(controller, link, told, is_found)
            nodes = [(10_001, "127.0.0.1", 9192), (10_002, "::1", 9292)]
            assert await _listed(ann) == brokers + nodes
            assert await _found(ann, "billing") == (0, 10_002, "::1", 9292)

            # A holder without a Kafka listener cannot be named.
            owners[shard_of("billing")] = WITHOUT_KAFKA.node_id
            without = Nodes(nodes=(ONE, WITHOUT_KAFKA), owners=tuple(owners))

            async def is_lost() -> bool:
                return (await _found(ann, "billing"))[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE

            await _until_told(controller, link, without, is_lost)
            assert await _listed(ann) == brokers + nodes[:1]


def _owned_by(holder: NodeRow) -> Nodes:
    return Nodes(nodes=(holder,), owners=(holder.node_id,) * SHARDS)


async def _told_of_one(controller: ControllerSide) -> tuple[ServerConnection, int]:
    """The link that has said that node-1 owns everything, and the port of the broker."""
    link, hello = await controller.bind()
    await controller.apply(link, version=5)
    port = int(hello.endpoints["client"].rpartition(":")[2])
    async with client(port) as ann:

        async def is_found() -> bool:
            return (await _found(ann, "billing"))[1] == ONE.node_id

        await _until_told(controller, link, _owned_by(ONE), is_found)
    return link, port


async def _broken(link: ServerConnection, process: BrokerProcess) -> None:
    await link.close()
    while process._link.bound:
        await asyncio.sleep(0.005)


async def test_while_its_link_is_broken_it_names_nobody_from_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node at the other end may be the one that ended: a client would find its address refused."""
    monkeypatch.setattr(listener, "HELD_MAX_MS", 60_000)
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller) as process:
        link, port = await _told_of_one(controller)
        async with client(port) as ann:
            await _broken(link, process)
            asked = asyncio.create_task(_found(ann, "billing"))
            link, _ = await controller.bind()
            assert not asked.done()
            await controller.say(link, _owned_by(TWO))
            assert await asked == (0, TWO.node_id, "::1", 9292)


@pytest.mark.parametrize(
    ("held_ms", "doubted_ms"), [(10, 60_000), (60_000, 0)], ids=["a search", "all searches"]
)
async def test_nobody_waits_for_long_where_no_node_takes_its_link(
    held_ms: int, doubted_ms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are answered behind it, on the same connection: each search would hold them up."""
    monkeypatch.setattr(listener, "HELD_MAX_MS", held_ms)
    monkeypatch.setattr(listener, "DOUBTED_MAX_MS", doubted_ms)
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller) as process:
        link, port = await _told_of_one(controller)
        async with client(port) as ann:
            await _broken(link, process)
            assert (await _found(ann, "billing"))[1] == ONE.node_id


async def test_who_asks_for_transactions_waits_for_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused whoever owns which groups."""
    monkeypatch.setattr(listener, "HELD_MAX_MS", 60_000)
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller) as process:
        link, port = await _told_of_one(controller)
        async with client(port) as ann:
            await _broken(link, process)
            refused, *_ = await _found(ann, "payments", TRANSACTION)
            assert refused == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
