"""This room plays the controller's end of one broker's link, over real sockets and files."""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

from websockets.asyncio.server import ServerConnection, serve

from broker.core.peer_proof import ReplicationKey
from broker.folder import DataFolder
from broker.process import BrokerProcess
from broker.settings import from_environment
from muster.messages import codec
from muster.messages.link.from_broker import AlterPartition, BrokerHello, BrokerPing, UnusableLogs
from muster.messages.link.rows import BrokerRow, PartitionRow, TopicRow
from muster.messages.link.to_broker import HelloAccepted, SnapshotChunk, ToBroker

ORDERS = UUID(int=1)
PARTITIONS = 200
KEY = ReplicationKey("a-cluster", b"what all brokers know")
LAST = (ORDERS, PARTITIONS - 1)


class ControllerSide:
    """The controller's end of the links of one broker, as the test plays it."""

    def __init__(self) -> None:
        self.links: asyncio.Queue[ServerConnection] = asyncio.Queue()
        self.serving: ssl.SSLContext | None = None
        """What its door speaks TLS with, if it does."""
        self.session_timeout_ms = 9_000
        self.address = ""
        """Where its door is, once it is open."""
        self.proposed: list[tuple[UUID, int]] = []
        self._unusable: deque[UnusableLogs] = deque()

    async def take(self, link: ServerConnection) -> None:
        await self.links.put(link)
        await link.wait_closed()

    async def bind(
        self, meanwhile: Callable[[], None] | None = None, protocol: int = 0
    ) -> tuple[ServerConnection, BrokerHello]:
        """The next link, with its hello accepted; `meanwhile` happens before the broker hears of it."""
        link = await self.links.get()
        hello = codec.decode_from_broker(await link.recv())
        assert isinstance(hello, BrokerHello)
        if meanwhile is not None:
            meanwhile()
            # Whatever it makes the broker do at once is done.
            await asyncio.sleep(0)
        accepted = HelloAccepted(
            cluster_id=KEY.cluster_id,
            broker_epoch=1,
            session_timeout_ms=self.session_timeout_ms,
            replication_key=KEY.secret.hex(),
            min_insync_replicas=2,
            protocol=protocol,
        )
        await self.say(link, accepted)
        return link, hello

    async def say(self, link: ServerConnection, frame: ToBroker) -> None:
        await link.send(codec.encode(frame).decode())

    async def apply(self, link: ServerConnection, version: int) -> None:
        """Send the snapshot and hear until the broker has applied it."""
        brokers = tuple(BrokerRow(b, 1, "a", {"client": f"127.0.0.1:{9000 + b}"}) for b in (1, 2))
        rows = tuple(PartitionRow(ORDERS, number, (1, 2), 1, 1, (1,), 5) for number in range(PARTITIONS))
        topic = TopicRow(ORDERS, "orders", PARTITIONS, 2)
        await self.say(
            link,
            SnapshotChunk(
                metadata_version=version,
                number=0,
                last=True,
                brokers=brokers,
                topics=(topic,),
                partitions=rows,
            ),
        )
        while True:
            frame = codec.decode_from_broker(await link.recv())
            if isinstance(frame, AlterPartition):
                self.proposed += [(one.topic_id, one.partition) for one in frame.proposals]
            if isinstance(frame, UnusableLogs):
                self._unusable.append(frame)
            if isinstance(frame, BrokerPing) and frame.metadata_version == version:
                return

    async def hear_proposals(self, link: ServerConnection) -> None:
        """Until the broker has proposed something on this link, be it beside the pings of `apply`."""
        while not self.proposed:
            frame = codec.decode_from_broker(await link.recv())
            if isinstance(frame, AlterPartition):
                self.proposed += [(one.topic_id, one.partition) for one in frame.proposals]

    async def hear_unusable(self, link: ServerConnection) -> UnusableLogs:
        """The next time that the broker names its unusable logs, be it beside the ping of `apply`."""
        while not self._unusable:
            frame = codec.decode_from_broker(await link.recv())
            if isinstance(frame, UnusableLogs):
                self._unusable.append(frame)
        return self._unusable.popleft()


@asynccontextmanager
async def linked_broker(
    folder: Path, controller: ControllerSide, *others: ControllerSide, **stated: str
) -> AsyncIterator[BrokerProcess]:
    """Broker 1, on real sockets and files, and the doors that it may link to, in this order.

    `stated` are further variables.
    """
    async with contextlib.AsyncExitStack() as doors:
        for one in (controller, *others):
            # Who left frames unread does not see that the broker has hung up.
            serving = serve(one.take, "127.0.0.1", 0, ssl=one.serving, close_timeout=0.2)
            door = await doors.enter_async_context(serving)
            port = door.sockets[0].getsockname()[1]
            one.address = f"{'wss' if one.serving else 'ws'}://127.0.0.1:{port}"
        settings = from_environment(
            {
                "MUSTER_BROKER_ID": "1",
                "MUSTER_BROKER_LISTEN": "127.0.0.1:0",
                "MUSTER_BROKER_DATA": str(folder),
                "MUSTER_NODES": ",".join(one.address for one in (controller, *others)),
                "MUSTER_BROKER_SECRET": "s3cret",
                # So short that a proposal is tried in each pause between two rows.
                "MUSTER_REPLICA_LAG_TIME_MAX_MS": "1",
                "MUSTER_BROKER_HEARTBEAT_INTERVAL_MS": "20",
                **stated,
            }
        )
        with DataFolder(folder, 1) as data:
            data.open("boot-1")
            process, stop = BrokerProcess(settings, data), asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            try:
                yield process
            finally:
                stop.set()
                await running
