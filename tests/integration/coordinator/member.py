"""This room is a member without the SDK: says what a test tells it, and answers the rest as it should."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from uuid import UUID

from muster.client.transport import NodeUnreachable, Transport
from muster.messages.member import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    Frame,
    LeaveRequest,
    LeaveResponse,
    PartitionOffset,
    PingRequest,
    PingResponse,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StartFetcherRequest,
    StartFetcherResponse,
    StopFetcherRequest,
    StopFetcherResponse,
    ToMember,
    TopicCount,
    TopicOffsets,
)

Kind = TypeVar("Kind", bound=Frame)

WITHIN_S = 90.0


class ScriptedMember:
    """Owns what it is told to own, moves its positions when the test says so, keeps all that it heard.

    `answers` switches off single reactions: "ping", "stop", "start".
    """

    def __init__(self, address: str, token: str, group: str, consumer_id: str, topic: str = "orders") -> None:
        self.address = address
        self.access_token = token
        self.group = group
        self.consumer_id = consumer_id
        self.topic = topic
        self.member_token = secrets.token_hex(32)
        self.session_timeout_ms = 30_000
        self.auto_commit = True
        self.answers = {"ping", "stop", "start"}
        self.heard: list[ToMember] = []
        self.owned: dict[int, int] = {}
        self.since: dict[int, int] = {}
        self.topic_ids: dict[str, UUID] = {}
        self.starts = 0
        self.closed = ""
        self._correlation_id = 0
        self._transport: Transport | None = None
        self._listener: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator["ScriptedMember"]:
        """Connected while the block runs."""
        await self.connect()
        try:
            yield self
        finally:
            await self.vanish()

    async def connect(self) -> None:
        """Open a socket; the old one is hung up first."""
        await self.vanish()
        self.closed = ""
        self._transport = await Transport.open(self.address, self.access_token)
        self._listener = asyncio.create_task(self._listen(self._transport))

    async def vanish(self) -> None:
        """Hang up without a word."""
        if self._transport is not None:
            self._transport.hang_up()
            assert self._listener is not None
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
            self._transport = None

    async def say(self, message: Frame) -> None:
        """Send one frame."""
        assert self._transport is not None
        await self._transport.say(message)

    async def say_text(self, frame: str | bytes) -> None:
        """Send whatever a test wants to send; bytes become a binary frame."""
        assert self._transport is not None
        await self._transport._socket.send(frame)

    async def register(self, **changes: object) -> RegisterConsumerResponse:
        """RegisterConsumer, and its answer."""
        correlation_id = await self.say_register(**changes)
        return await self.expect(RegisterConsumerResponse, lambda one: one.correlation_id == correlation_id)

    async def say_register(self, **changes: object) -> int:
        """RegisterConsumer; its correlation id."""
        fields: dict[str, object] = {
            "group_id": self.group,
            "consumer_id": self.consumer_id,
            "token": self.member_token,
            "topic_count": (TopicCount(self.topic),),
            "session_timeout_ms": self.session_timeout_ms,
            "auto_commit": self.auto_commit,
            "auto_offset_reset": "earliest",
            **changes,
        }
        correlation_id = self._next()
        await self.say(RegisterConsumerRequest(correlation_id=correlation_id, **fields))  # type: ignore[arg-type]
        return correlation_id

    async def commit(self, offsets: dict[int, int], generation: int | None = None) -> CommitOffsetsResponse:
        """CommitOffsets, and its answer; by default with the generation of each tenure."""
        topic_id = self.topic_ids[self.topic]
        entries = tuple(
            PartitionOffset(partition, offset, self.since[partition] if generation is None else generation)
            for partition, offset in offsets.items()
        )
        correlation_id = self._next()
        await self.say(
            CommitOffsetsRequest(
                correlation_id=correlation_id,
                consumer_id=self.consumer_id,
                offset_info=(TopicOffsets(self.topic, topic_id, entries),),
            )
        )
        return await self.expect(CommitOffsetsResponse, lambda one: one.correlation_id == correlation_id)

    async def leave(self) -> LeaveResponse:
        """Leave, and its answer."""
        await self.say(LeaveRequest(correlation_id=self._next(), consumer_id=self.consumer_id))
        return await self.expect(LeaveResponse)

    async def expect(self, kind: type[Kind], like: Callable[[Kind], bool] = lambda _: True) -> Kind:
        """The first frame heard of this kind, waiting for it if need be."""
        return await self.until(
            lambda: next((one for one in self.heard if isinstance(one, kind) and like(one)), None),
            f"{self.consumer_id} hears {kind.__name__}",
        )

    async def until(
        self, condition: Callable[[], Kind | None], what: str, within_s: float = WITHIN_S
    ) -> Kind:
        """Wait until something that was heard makes `condition` true."""
        try:
            async with asyncio.timeout(within_s), self._news:
                while not (value := condition()):
                    await self._news.wait()
                return value
        except TimeoutError:
            kinds = [type(one).__name__ for one in self.heard]
            raise AssertionError(f"not within {within_s} s: {what}; heard {kinds}, {self.closed!r}") from None

    async def owns(self, *partitions: int) -> None:
        """Wait until exactly these partitions are owned."""
        await self.until(lambda: self.owned.keys() == set(partitions) or None, f"owns {partitions}")  # type: ignore[arg-type]

    async def owns_some(self, count: int) -> None:
        """Wait until `count` partitions are owned."""
        await self.until(lambda: len(self.owned) == count or None, f"owns {count}")  # type: ignore[arg-type]

    async def hung_up_on(self) -> str:
        """Wait until the node closes the connection; what it said."""
        await self.until(lambda: self.closed or None, "the node hangs up")  # type: ignore[arg-type]
        return self.closed

    async def _listen(self, transport: Transport) -> None:
        while True:
            message: ToMember | None = None
            closed = ""
            try:
                message = await transport.hear()
                await self._react(message)
            except NodeUnreachable as gone:
                # Also while it reacts: the node may hang up right behind what it said.
                self.closed = closed = gone.reason or "closed"
            async with self._news:
                if message is not None:
                    self.heard.append(message)
                self._news.notify_all()
            if closed:
                return

    async def _react(self, message: ToMember) -> None:
        if isinstance(message, PingRequest) and "ping" in self.answers:
            await self.say(
                PingResponse(
                    consumer_id=self.consumer_id,
                    number=message.number,
                    generation=message.generation,
                    offset_info=self._positions(self.owned),
                )
            )
        elif isinstance(message, StopFetcherRequest) and "stop" in self.answers:
            lost = {
                number: self.owned.pop(number)
                for topic in message.partitions
                for number in topic.partitions
                if number in self.owned
            }
            await self.say(
                StopFetcherResponse(
                    consumer_id=self.consumer_id,
                    generation=message.generation,
                    version=message.version,
                    offset_info=self._positions(lost),
                )
            )
        elif isinstance(message, StartFetcherRequest) and "start" in self.answers:
            self._obey(message)
            await self.say(
                StartFetcherResponse(
                    consumer_id=self.consumer_id, generation=message.generation, version=message.version
                )
            )

    def _obey(self, message: StartFetcherRequest) -> None:
        whole: dict[int, int] = {}
        for thread in message.ownership_info:
            for topic in thread.assigned_parts:
                self.topic_ids[topic.topic] = topic.topic_id
                whole.update({one.partition: one.offset for one in topic.partitions})
        for number in self.owned.keys() - whole.keys():
            del self.owned[number]
        for number in whole.keys() - self.owned.keys():
            self.owned[number] = whole[number]
            self.since[number] = message.generation
        self.starts += 1

    def _positions(self, offsets: dict[int, int]) -> tuple[TopicOffsets, ...]:
        if not offsets:
            return ()
        entries = tuple(
            PartitionOffset(number, offset if self.auto_commit else -1, self.since[number])
            for number, offset in sorted(offsets.items())
        )
        return (TopicOffsets(self.topic, self.topic_ids[self.topic], entries),)

    def _next(self) -> int:
        self._correlation_id += 1
        return self._correlation_id
