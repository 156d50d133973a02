"""A node that has not read tokens and secrets yet calls nobody a stranger: it answers 503, not 401."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from muster.client.transport import NodeUnreachable, Transport
from tests.integration.coordinator.control_plane import ControlPlane

WITHIN_S = 90.0


@contextmanager
def unreadable(plane: ControlPlane, *tables: str) -> Iterator[None]:
    """Whoever reads these tables waits while the block runs, and is cut off after 2 s."""
    with psycopg.connect(plane.database_url) as holder:
        holder.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE".encode())
        yield


async def status(address: str, authorization: str) -> int:
    """How a node that has just been started answers a handshake: its HTTP status, 101 if it agrees."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                async with connect(address, additional_headers={"Authorization": authorization}):
                    return 101
            except InvalidStatus as refusal:
                return refusal.response.status_code
            except OSError:
                await asyncio.sleep(0.02)


async def test_a_node_without_tokens_and_secrets_is_not_available(two_nodes: ControlPlane) -> None:
    token = two_nodes.token()
    two_nodes.nodes["node-2"].kill()
    with unreadable(two_nodes, "access_apitoken", "broker"):
        two_nodes.start_node("node-2")
        address = two_nodes.addresses["node-2"]
        assert await status(f"{address}/ws/consumer/", f"Bearer {token}") == 503
        assert await status(f"{address}/ws/consumer/", "Basic nonsense") == 401
        assert await status(f"{address}/ws/broker/", "Bearer 9:who knows") == 503
        assert await status(f"{address}/ws/broker/", "nonsense") == 403
        with pytest.raises(NodeUnreachable):
            await Transport.open(address, token)

    async def lets_in() -> bool:
        try:
            (await Transport.open(address, token)).hang_up()
        except NodeUnreachable:
            return False
        return True

    async with asyncio.timeout(WITHIN_S):
        while not await lets_in():
            await asyncio.sleep(0.02)
    assert await status(f"{address}/ws/broker/", "Bearer 9:who knows") == 403
