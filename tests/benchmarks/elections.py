"""This room measures elections: leaders of 10,000 partitions after a broker's death, node and worker alive.

Node, worker, PostgreSQL and Redis are real processes; the brokers are clients that speak the link's protocol
and nothing else, so that what is measured is the control plane. The clock runs from detection (the closed
link's deadline) to the last command that a surviving broker has received.
"""

import asyncio
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.protocol import State

from controller.core.settings import ControllerSettings
from muster.messages import codec
from muster.messages.limits import MAX_FRAME_TO_BROKER_BYTES
from muster.messages.link.from_broker import BrokerHello, BrokerPing, CreateTopics, NewTopic
from muster.messages.link.rows import PartitionRow
from muster.messages.link.to_broker import Changes, CreateTopicsAnswer, HelloAccepted, SnapshotChunk, ToBroker
from tests.benchmarks.planes import bench_plane
from tests.integration.coordinator.control_plane import ControlPlane

PARTITIONS = 10_000
BROKERS = (1, 2, 3)
VICTIM = 1
PING_INTERVAL_S = 0.5
PATIENCE_S = 60.0


@dataclass
class LinkClient:
    """A broker as the controller sees it: hello, pings, what it was told; it hosts nothing."""

    broker_id: int
    connection: ClientConnection
    version: int = 0
    rows: dict[tuple[UUID, int], PartitionRow] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    heard_at: float = 0.0
    answers: dict[int, CreateTopicsAnswer] = field(default_factory=dict)

    async def listen(self) -> None:
        """Take over every frame until the link closes."""
        with contextlib.suppress(ConnectionClosed):
            async for data in self.connection:
                arrived = time.monotonic()
                frame = codec.decode_to_broker(data)
                self.take(frame)
                self.heard_at = arrived
                self.changed.set()
        self.changed.set()

    def take(self, frame: ToBroker) -> None:
        match frame:
            case SnapshotChunk():
                self.rows.update((row.key, row) for row in frame.partitions)
                self.version = frame.metadata_version if frame.last else self.version
            case Changes():
                for alike in (*frame.leader_and_isr, *frame.stop_replica, *frame.partitions):
                    self.rows.update((row.key, row) for row in alike.rows(frame.metadata_version))
                self.version = frame.metadata_version if frame.complete else self.version
            case CreateTopicsAnswer():
                self.answers[frame.correlation_id] = frame
            case _:
                pass

    async def ping(self) -> None:
        number = 0
        while True:
            number += 1
            ping = BrokerPing(number=number, metadata_version=self.version)
            await self.connection.send(codec.encode(ping), text=True)
            await asyncio.sleep(PING_INTERVAL_S)

    async def until_no_leader_is(self, broker_id: int) -> float:
        """When the frame arrived after which nothing is led by `broker_id` any more."""
        await self.until(lambda: all(row.leader != broker_id for row in self.rows.values()))
        return self.heard_at

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when what was heard makes it true; fails as soon as the node hangs up."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                assert self.connection.state is State.OPEN, f"hung up: {self.connection.close_reason}"
                self.changed.clear()
                await self.changed.wait()


async def link(address: str, broker_id: int, secret: str) -> LinkClient:
    """Open a link and say hello as a new incarnation."""
    connection = await _opened(address, broker_id, secret)
    hello = BrokerHello(
        broker_id=broker_id,
        incarnation=str(uuid4()),
        endpoints={"client": f"127.0.0.1:{9090 + broker_id}", "replication": f"127.0.0.1:{9190 + broker_id}"},
    )
    await connection.send(codec.encode(hello), text=True)
    accepted = codec.decode_to_broker(await connection.recv())
    assert isinstance(accepted, HelloAccepted), accepted
    return LinkClient(broker_id, connection)


async def _opened(address: str, broker_id: int, secret: str) -> ClientConnection:
    """A node that has just begun may not have read who is enrolled: a broker asks it again, too."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(InvalidStatus):
                return await connect(
                    address + "/ws/broker/",
                    additional_headers={"Authorization": f"Bearer {broker_id}:{secret}"},
                    max_size=MAX_FRAME_TO_BROKER_BYTES,
                    ping_interval=None,
                    compression=None,
                    proxy=None,
                )
            await asyncio.sleep(PING_INTERVAL_S)


async def create_topics(client: LinkClient, partitions: int) -> None:
    """Topics led by the one that will die, as many as one request may create each."""
    most = ControllerSettings().max_partitions_per_request
    for request, first in enumerate(range(0, partitions, most), start=1):
        count = min(most, partitions - first)
        topic = NewTopic(
            name=f"orders-{uuid4().hex[:8]}",
            assignments={number: (VICTIM, 2 + number % 2, 3 - number % 2) for number in range(count)},
        )
        wanted = CreateTopics(correlation_id=request, topics=(topic,), timeout_ms=int(PATIENCE_S * 1000))
        await client.connection.send(codec.encode(wanted), text=True)
        await client.until(partial(client.answers.__contains__, request))
        assert not client.answers[request].topics[0].error, client.answers[request].topics[0].text


async def one_death(plane: ControlPlane, secrets: dict[int, str], partitions: int) -> float:
    """Milliseconds from the detection of a death to the last command received; a new topic each time."""
    (address,) = plane.addresses.values()
    clients = {broker_id: await link(address, broker_id, secrets[broker_id]) for broker_id in BROKERS}
    tasks = [asyncio.create_task(duty) for c in clients.values() for duty in (c.listen(), c.ping())]
    try:
        await create_topics(clients[2], partitions)
        closed_at = time.monotonic()
        await clients[VICTIM].connection.close()
        detected_at = closed_at + ControllerSettings().closed_link_timeout_ms / 1000
        last = await asyncio.gather(*(clients[b].until_no_leader_is(VICTIM) for b in BROKERS if b != VICTIM))
        return (max(last) - detected_at) * 1000
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in clients.values():
            await client.connection.close()


def run(home: Path, partitions: int = PARTITIONS, rounds: int = 3) -> list[str]:
    """The table's lines. Makes and removes folders under `home`."""
    took = [_one_round(home, partitions) for _ in range(rounds)]
    return [
        f"leaders of {partitions:,} partitions after a broker's death, detection to last command; fsync on",
        f"{'rounds':<10}{'median ms':>12}{'best ms':>12}{'worst ms':>12}",
        f"{rounds:<10}" + "".join(f"{ms:>12.0f}" for ms in (statistics.median(took), min(took), max(took))),
    ]


def _one_round(home: Path, partitions: int) -> float:
    """One death in a cluster of its own: each round elects exactly `partitions` leaders."""
    with bench_plane(home, "elections") as plane:
        secrets = {
            broker_id: plane.manage("enroll_broker", str(broker_id)).split()[-1] for broker_id in BROKERS
        }
        return asyncio.run(one_death(plane, secrets, partitions))


def main() -> None:
    """`python -m tests.benchmarks.elections [PARTITIONS] [ROUNDS]`"""
    home = Path(os.environ.get("MUSTER_HOME", ".muster"))
    print("\n".join(run(home, *map(int, sys.argv[1:3]))))


if __name__ == "__main__":
    main()
