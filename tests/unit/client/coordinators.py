"""This room is a coordinator for the SDK's tests: a websocket server that says what the test tells it."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from uuid import UUID

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from muster.kernel.error_codes import ErrorCode
from muster.kernel.security_protocols import PLAINTEXT
from muster.messages import codec
from muster.messages.member import (
    AssignedPartition,
    AssignedTopic,
    BrokerInfo,
    ClusterMetadataRequest,
    ClusterMetadataResponse,
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    Frame,
    LeaveRequest,
    LeaveResponse,
    PingRequest,
    PingResponse,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StartFetcherRequest,
    StopFetcherRequest,
    StopFetcherResponse,
    ThreadOwnership,
    TopicPartitions,
)
from muster.messages.partitions import Partition, each_position

Place = tuple[str, int]


class LoneCoordinator:
    """The coordinator of one member: it owns `shares`, by stream; each change is said by `stop` and `start`.

    `standbys` is what it stands by for, told with each start. `committed` is what it keeps, by topic and
    partition; `commit_errors` are answered first, one a commit.
    """

    def __init__(self, topic_ids: Mapping[str, UUID], broker: str = "", security: str = PLAINTEXT) -> None:
        self.address = ""
        self.shares: list[set[Place]] = [set()]
        self.standbys: set[Place] = set()
        self.committed: dict[Place, int] = {}
        self.commit_errors: list[ErrorCode] = []
        self.answers_commits = True
        self.heard: list[Frame] = []
        self.generation = 0
        self._ids = topic_ids
        self._brokers: tuple[BrokerInfo, ...] = ()
        if broker:
            host, _, port = broker.rpartition(":")
            self._brokers = (BrokerInfo(1, host, int(port), security),)
        self._server: Server | None = None
        self._member: ServerConnection | None = None
        self._consumer_id = ""
        self._pings = 0
        self._news = asyncio.Condition()

    async def serve(self) -> None:
        """Listen, on a port of its own."""
        self._server = await serve(self._converse, "127.0.0.1", 0, ping_interval=None)
        [socket] = self._server.sockets
        self.address = f"ws://127.0.0.1:{socket.getsockname()[1]}"

    async def end(self) -> None:
        """The process is gone."""
        assert self._server is not None
        self._server.close(close_connections=True)
        for connection in list(self._server.connections):
            connection.transport.abort()
        await self._server.wait_closed()

    # What the test tells.

    async def start(self, *shares: Iterable[Place]) -> None:
        """A generation opens: these streams are its whole ownership."""
        self.generation += 1
        self.shares = [set(share) for share in shares]
        await self.say_start()

    async def stop(self, *places: Place) -> None:
        """Tell it to end these."""
        by_topic: dict[str, list[int]] = {}
        for topic, number in places:
            by_topic.setdefault(topic, []).append(number)
        partitions = tuple(
            TopicPartitions(topic, self._ids[topic], tuple(numbers)) for topic, numbers in by_topic.items()
        )
        request = StopFetcherRequest(
            consumer_id=self._consumer_id,
            generation=self.generation,
            version=self.generation,
            partitions=partitions,
        )
        await self.say(request)

    async def stopped(self) -> StopFetcherResponse:
        """The answer to the last `stop`, when it comes."""
        answer = await self.hears(StopFetcherResponse)
        assert isinstance(answer, StopFetcherResponse)
        return answer

    async def ping(self) -> PingResponse:
        """Ask for a sign of life, and wait for it."""
        self._pings += 1
        number = self._pings
        await self.say(PingRequest(consumer_id=self._consumer_id, number=number, generation=self.generation))
        while True:
            answer = await self.hears(PingResponse)
            assert isinstance(answer, PingResponse)
            if answer.number == number:
                return answer

    async def hang_up(self) -> None:
        """Break the member's connection."""
        assert self._member is not None
        self._member.transport.abort()
        self._member = None

    async def hears(self, kind: type[Frame], count: int = 1) -> Frame:
        """The last frame of this kind, once `count` of them were heard; they are forgotten then."""
        async with asyncio.timeout(20), self._news:
            while len(found := [one for one in self.heard if isinstance(one, kind)]) < count:
                await self._news.wait()
            self.heard = [one for one in self.heard if not isinstance(one, kind)]
            return found[-1]

    async def say_start(self) -> None:
        """The whole ownership."""
        streams = tuple(
            ThreadOwnership(f"{self._consumer_id}-{number}", self._topics(share))
            for number, share in enumerate(self.shares)
            if share
        )
        request = StartFetcherRequest(
            consumer_id=self._consumer_id,
            generation=self.generation,
            version=self.generation,
            num_threads=len(streams),
            ownership_info=streams,
            standby_info=self._topics(self.standbys),
            brokers_info=self._brokers,
        )
        await self.say(request)

    async def say(self, message: object) -> None:
        """One frame to the member."""
        assert self._member is not None
        await self._member.send(codec.encode(message).decode())  # type: ignore[arg-type]

    # What it does by itself.

    def _topics(self, share: set[Place]) -> tuple[AssignedTopic, ...]:
        return tuple(
            AssignedTopic(
                topic,
                self._ids[topic],
                tuple(
                    AssignedPartition(number, self.committed.get((topic, number), -1))
                    for one, number in sorted(share)
                    if one == topic
                ),
            )
            for topic in sorted({one for one, _ in share})
        )

    async def _converse(self, connection: ServerConnection) -> None:
        try:
            async for frame in connection:
                message = codec.decode_from_member(frame)
                await self._react(connection, message)
                async with self._news:
                    self.heard.append(message)
                    self._news.notify_all()
        except ConnectionClosed:
            pass

    async def _react(self, connection: ServerConnection, message: Frame) -> None:
        match message:
            case ClusterMetadataRequest(correlation_id=number):
                answer = ClusterMetadataResponse(
                    correlation_id=number, coordinator_address=self.address, brokers_info=self._brokers
                )
                await connection.send(codec.encode(answer).decode())
            case RegisterConsumerRequest(correlation_id=number):
                known, self._consumer_id = bool(self._consumer_id), message.consumer_id
                self._member = connection
                self.generation = max(1, self.generation)
                await self.say(
                    RegisterConsumerResponse(
                        correlation_id=number,
                        known=known,
                        generation=self.generation,
                        version=self.generation,
                    )
                )
                await self.say_start()
            case CommitOffsetsRequest() if self.answers_commits:
                await self._commit(message)
            case LeaveRequest(correlation_id=number):
                await self.say(LeaveResponse(correlation_id=number))
            case StopFetcherResponse() | PingResponse():
                self._keep(message)
            case _:
                pass

    async def _commit(self, request: CommitOffsetsRequest) -> None:
        error = self.commit_errors.pop(0) if self.commit_errors else ErrorCode.NONE
        if error is ErrorCode.NONE:
            self._keep(request)
        await self.say(CommitOffsetsResponse(correlation_id=request.correlation_id, error_code=error))

    def _keep(self, frame: "CommitOffsetsRequest | PingResponse | StopFetcherResponse") -> None:
        for partition, position in each_position(frame.offset_info):
            if position.offset >= 0:
                self.committed[place(partition)] = position.offset


def place(partition: Partition) -> Place:
    """As applications name it."""
    return partition.topic, partition.number


@asynccontextmanager
async def coordinating(
    topic_ids: Mapping[str, UUID], broker: str = "", security: str = PLAINTEXT
) -> AsyncIterator[LoneCoordinator]:
    """A coordinator that answers until the test is over."""
    coordinator = LoneCoordinator(topic_ids, broker, security)
    await coordinator.serve()
    try:
        yield coordinator
    finally:
        await coordinator.end()
