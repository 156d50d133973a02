"""A connection does not outlive the rights it was let in with: at a broker and at a node, idle or waiting."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from muster.kafkawire.api_table import ApiKey, build, request_class
from standalone.postgres import Postgres
from standalone.redis import Redis
from tests.integration.replication.cluster import Cluster
from tests.kept_databases import lent_database
from tests.unit.broker_data_plane.planes import Client, client
from tests.unit.broker_data_plane.test_a_fetch_tells_nothing_of_others_topics import fetch

WITHIN_S = 40.0
"""Less than a fetch may wait, more than nodes look at the tokens without being woken."""

PARKED_MS = 60_000

End = Callable[[Cluster, str], object]

ENDS: dict[str, End] = {
    "taken back": lambda cluster, name: cluster.manage("revoke_token", name),
    "locked out": lambda cluster, name: cluster.manage("lock_out", name),
    "narrowed": lambda cluster, name: cluster.manage(
        "create_token", name, "--role", "client", "--topic", "clicks", "--replace"
    ),
    "of a lower role": lambda cluster, name: cluster.manage(
        "create_token", name, "--role", "viewer", "--replace"
    ),
    "expired": lambda cluster, name: cluster.execute(
        "UPDATE access_apitoken SET expires_at = now() WHERE name = %s", name
    ),
}


@pytest.fixture(scope="module")
def guarded(
    postgres_server: Postgres, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A node and a broker that ask everybody for a token; the broker leads `orders`."""
    home = tmp_path_factory.mktemp("guarded")
    redis = Redis(home / "redis")
    redis.start()
    with lent_database(postgres_server, migrated_template) as url:
        cluster = Cluster(Path(home / "cluster"), url, redis, MUSTER_KAFKA_SASL="1")
        try:
            cluster.start((1,))
            admin = AdminClient(
                {
                    "bootstrap.servers": cluster.bootstrap,
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanisms": "PLAIN",
                    "sasl.username": "root",
                    "sasl.password": cluster.token("root", "admin"),
                    "log_level": 0,
                }
            )
            wanted = NewTopic("orders", num_partitions=1, replication_factor=1)
            admin.create_topics([wanted], operation_timeout=20.0)["orders"].result(40)
            yield cluster
        finally:
            cluster.stop()
            redis.stop()


@asynccontextmanager
async def come_in(port: int, name: str, token: str) -> AsyncIterator[Client]:
    """A connection that proved by PLAIN who it is."""
    async with client(port) as door:
        handshake = build(request_class(ApiKey.SASL_HANDSHAKE, 1), mechanism="PLAIN")
        assert int((await door.ask(ApiKey.SASL_HANDSHAKE, 1, handshake)).error_code) == 0
        proof = build(request_class(ApiKey.SASL_AUTHENTICATE, 2), auth_bytes=f"\0{name}\0{token}".encode())
        assert int((await door.ask(ApiKey.SASL_AUTHENTICATE, 2, proof)).error_code) == 0
        yield door


async def wait_for_records(door: Client) -> None:
    """A fetch of a session, which is not answered before there is a record."""
    begun = await door.ask(ApiKey.FETCH, 12, fetch({"orders": 0}, version=12, session=(0, 0)))
    assert [int(one.error_code) for topic in begun.responses for one in topic.partitions] == [0]
    door.send(ApiKey.FETCH, 12, fetch({}, version=12, session=(begun.session_id, 1), wait_ms=PARKED_MS))


async def heartbeat(door: Client) -> int:
    shape = request_class(ApiKey.HEARTBEAT, 4)
    said: dict[str, Any] = {"group_id": "readers", "generation_id": 1, "member_id": "ann"}
    answer = await door.ask(ApiKey.HEARTBEAT, 4, build(shape, **said, group_instance_id=None))
    return int(answer.error_code)


@pytest.mark.parametrize("how", sorted(ENDS))
async def test_a_connection_ends_with_its_rights(guarded: Cluster, how: str) -> None:
    name = how.replace(" ", "-")
    token = guarded.manage("create_token", name, "--role", "client").split()[-1]
    at_broker = guarded.ports[1][0]
    (address,) = guarded.query("SELECT addresses ->> 'kafka' FROM node_session WHERE NOT ended")[0]
    at_node = int(str(address).rpartition(":")[2])
    async with AsyncExitStack() as opened:
        idle, waiting, member = [
            await opened.enter_async_context(come_in(port, name, token))
            for port in (at_broker, at_broker, at_node)
        ]
        root = await opened.enter_async_context(come_in(at_broker, "root", guarded.token("root", "admin")))
        await wait_for_records(waiting)
        assert await heartbeat(member) not in (29, 30, 31)
        await asyncio.to_thread(ENDS[how], guarded, name)
        for door in (idle, waiting, member):
            with pytest.raises(EOFError):
                await door.hear(WITHIN_S)
        # Nobody else is.
        assert await root.ask(ApiKey.API_VERSIONS, 0, build(request_class(ApiKey.API_VERSIONS, 0)))
