"""A follower hangs up on a leader that falls silent, not because its answer is long and the way narrow."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import structlog

from broker.core.replica_log import PartitionKey
from broker.replication import Replication
from broker.settings import BrokerSettings, from_environment
from muster.messages.link.rows import REPLICATION_LISTENER, BrokerRow
from tests.unit.broker_data_plane.planes import KEY, ORDERS, broker
from tests.unit.broker_log.logs import append

SILENT_MS: Final = 400
"""So long a leader may be silent."""

PAUSE_S: Final = 0.1
"""Between two pieces of an answer: all of them take longer than that, none of them does."""

RECORD: Final = bytes(64 * 1024)
PIECE_BYTES: Final = 8 * 1024

Carry = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def settings(folder: Path) -> BrokerSettings:
    return from_environment(
        {
            "MUSTER_BROKER_ID": "2",
            "MUSTER_BROKER_DATA": str(folder),
            "MUSTER_NODES": "ws://127.0.0.1:9301",
            "MUSTER_BROKER_SECRET": "s3cret",
            "MUSTER_REPLICA_FETCH_BACKOFF_MS": "10",
            "MUSTER_REPLICA_FETCH_WAIT_MAX_MS": "10",
            "MUSTER_REPLICA_SOCKET_TIMEOUT_MS": str(SILENT_MS),
        }
    )


@asynccontextmanager
async def way_to(port: int, carry: Carry) -> AsyncIterator[int]:
    """The port of a way to `port`, on which answers are carried by `carry`."""
    carrying: set[asyncio.Task[None]] = set()

    async def came(near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        far, to_far = await asyncio.open_connection("127.0.0.1", port)
        back = asyncio.create_task(carry(far, to_near))
        carrying.add(back)
        with suppress(OSError):
            while said := await near.read(PIECE_BYTES):
                to_far.write(said)
        back.cancel()
        await asyncio.gather(back, return_exceptions=True)
        for end in (to_near, to_far):
            end.transport.abort()

    door = await asyncio.start_server(came, "127.0.0.1", 0)
    async with door:
        yield door.sockets[0].getsockname()[1]


@asynccontextmanager
async def following(tmp_path: Path, carry: Carry) -> AsyncIterator[Callable[[], int]]:
    """A follower of a leader that holds one record, on such a way; how much of the log it has."""
    async with broker(tmp_path, 1) as one, broker(tmp_path, 2) as two:
        for each in (one, two):
            each.obey(1, replicas=(1, 2))
        leads, follows = one.plane.hosted(ORDERS, 0), two.plane.hosted(ORDERS, 0)
        assert leads is not None and follows is not None
        append(leads.log, RECORD)
        async with way_to(one.replication_port, carry) as port:
            replication = Replication(two.plane, settings(tmp_path))
            replication.know_self(1, KEY)
            try:
                endpoints = {REPLICATION_LISTENER: f"127.0.0.1:{port}"}
                replication.know_brokers([BrokerRow(1, 1, str(UUID(int=1)), endpoints)])
                replication.look_at(PartitionKey(ORDERS, 0))
                yield lambda: follows.log.end_offset
            finally:
                await replication.close()


async def test_an_answer_may_take_longer_than_a_leader_may_be_silent(tmp_path: Path) -> None:
    """Asked anew it would begin at the same record: such a follower would never come further."""

    async def narrow(far: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        while said := await far.read(PIECE_BYTES):
            near.write(said)
            if len(said) == PIECE_BYTES:
                await asyncio.sleep(PAUSE_S)

    async with asyncio.timeout(20), following(tmp_path, narrow) as end_offset:
        while end_offset() < 1:
            await asyncio.sleep(0.01)


async def test_a_leader_that_falls_silent_in_an_answer_is_asked_anew(tmp_path: Path) -> None:
    ways = 0

    async def swallow(far: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        """The first way lets nothing large through, once it was to."""
        nonlocal ways
        ways += 1
        is_first = ways == 1
        while said := await far.read(PIECE_BYTES):
            near.write(said)
            if is_first and len(said) == PIECE_BYTES:
                await asyncio.Event().wait()

    with structlog.testing.capture_logs() as logged:
        async with asyncio.timeout(20), following(tmp_path, swallow) as end_offset:
            while end_offset() < 1:
                await asyncio.sleep(0.01)
    assert any("did not go on" in one.get("reason", "") for one in logged)
