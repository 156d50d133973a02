"""This room is the cheapest member there is: a hand-made websocket, which costs less than the node it loads.

It masks with a key of zeros, which RFC 6455 allows, so that a frame is its header and its JSON.
"""

import asyncio
import base64
import os
import secrets
import struct
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from muster.messages import codec
from muster.messages.member import (
    Frame,
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
)
from muster.messages.partitions import Partition, Position, each_partition, positions_by_topic

TEXT, CLOSE = 0x81, 0x88


def frame(payload: bytes) -> bytes:
    """One masked text frame; the mask is zero."""
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", TEXT, 0x80 | size)
    elif size < 65536:
        head = struct.pack(">BBH", TEXT, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", TEXT, 0x80 | 127, size)
    return head + bytes(4) + payload


class RawSocket(asyncio.Protocol):
    """A websocket client: `opened` when the handshake is answered, `on_text` for each message."""

    def __init__(self, host: str, token: str, on_text: Callable[[bytes], None]) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._host = host
        self._token = token
        self._on_text = on_text
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        transport.write(
            f"GET /ws/consumer/ HTTP/1.1\r\nHost: {self._host}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {self._token}\r\n\r\n".encode()
        )

    def connection_lost(self, problem: Exception | None) -> None:
        """Tell whoever waits."""
        if not self.opened.done():
            self.opened.set_exception(ConnectionError("the handshake was not answered"))
        if not self.lost.done():
            self.lost.set_result(str(problem))

    def say(self, payload: bytes) -> None:
        """Send one message that is JSON already."""
        assert self._transport is not None
        self._transport.write(frame(payload))

    def hand_over(self) -> int:
        """Read and write no more; the descriptor with which another program goes on."""
        assert self._transport is not None
        assert not self._buffer
        self._transport.pause_reading()
        number: int = self._transport.get_extra_info("socket").fileno()
        return number

    def data_received(self, data: bytes) -> None:
        """Take the messages out of what came."""
        buffer = self._buffer
        buffer += data
        if not self.opened.done():
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            status = bytes(buffer[:end]).split(b" ", 2)[1]
            del buffer[: end + 4]
            if status != b"101":
                self.opened.set_exception(ConnectionError(f"answered {status.decode()}"))
                return
            self.opened.set_result(None)
        position, size = 0, len(buffer)
        while size - position >= 2:
            length, start = buffer[position + 1] & 0x7F, position + 2
            if length == 126:
                if size - position < 4:
                    break
                length, start = int.from_bytes(buffer[start : start + 2], "big"), start + 2
            elif length == 127:
                if size - position < 10:
                    break
                length, start = int.from_bytes(buffer[start : start + 8], "big"), start + 8
            if size - start < length:
                break
            payload = bytes(buffer[start : start + length])
            if buffer[position] == TEXT:
                self._on_text(payload)
            elif buffer[position] == CLOSE and not self.lost.done():
                self.lost.set_result(payload[2:].decode())
            position = start + length
        del buffer[:position]


class RawMember:
    """Registers and obeys, and counts what it hears."""

    def __init__(
        self, group: str, consumer_id: str, topics: Sequence[str], session_timeout_ms: int = 30_000
    ) -> None:
        self.group = group
        self.consumer_id = consumer_id
        self.topics = topics
        self.session_timeout_ms = session_timeout_ms
        self.pings = self.stops = self.starts = self.losses = 0
        self.fetching: dict[Partition, Position] = {}
        self.registered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.owns: asyncio.Event = asyncio.Event()
        self.socket: RawSocket | None = None

    async def connect(self, address: str, token: str) -> None:
        """Open the websocket."""
        parts = urlsplit(address)
        _, self.socket = await asyncio.get_running_loop().create_connection(
            lambda: RawSocket(parts.netloc, token, self._hear), parts.hostname or "", parts.port or 80
        )
        await self.socket.opened

    async def register(self) -> None:
        """RegisterConsumer; raises RuntimeError when it is refused."""
        self._say(
            RegisterConsumerRequest(
                correlation_id=1,
                group_id=self.group,
                consumer_id=self.consumer_id,
                token=secrets.token_hex(32),
                topic_count=tuple(map(TopicCount, self.topics)),
                session_timeout_ms=self.session_timeout_ms,
                auto_commit=False,
            )
        )
        assert self.socket is not None
        await asyncio.wait((self.registered, self.socket.lost), return_when=asyncio.FIRST_COMPLETED)
        if not self.registered.done():
            raise RuntimeError(f"{self.consumer_id} was hung up on: {self.socket.lost.result()}")
        self.registered.result()

    def hand_over(self) -> int:
        """Let another program say and hear what is said from here on (RawSocket.hand_over)."""
        assert self.socket is not None
        return self.socket.hand_over()

    def _say(self, message: Frame) -> None:
        assert self.socket is not None
        self.socket.say(codec.encode(message))

    def _hear(self, text: bytes) -> None:
        self._react(codec.decode_to_member(text))

    def _react(self, message: ToMember) -> None:
        match message:
            case RegisterConsumerResponse():
                if message.error_code:
                    self.registered.set_exception(RuntimeError(f"refused: {message}"))
                else:
                    self.registered.set_result(None)
            case PingRequest():
                self.pings += 1
                self._say(
                    PingResponse(
                        consumer_id=self.consumer_id,
                        number=message.number,
                        generation=message.generation,
                        offset_info=positions_by_topic(self.fetching),
                    )
                )
            case StopFetcherRequest():
                self.stops += 1
                for partition in each_partition(message.partitions):
                    self.losses += self.fetching.pop(partition, None) is not None
                self._say(
                    StopFetcherResponse(
                        consumer_id=self.consumer_id, generation=message.generation, version=message.version
                    )
                )
            case StartFetcherRequest():
                self._start(message)
            case _:
                pass

    def _start(self, message: StartFetcherRequest) -> None:
        self.starts += 1
        whole = {
            Partition(topic.topic, UUID(str(topic.topic_id)), one.partition)
            for thread in message.ownership_info
            for topic in thread.assigned_parts
            for one in topic.partitions
        }
        for partition in self.fetching.keys() - whole:
            del self.fetching[partition]
        for partition in whole - self.fetching.keys():
            self.fetching[partition] = Position(-1, message.generation)
        if whole:
            self.owns.set()
        self._say(
            StartFetcherResponse(
                consumer_id=self.consumer_id, generation=message.generation, version=message.version
            )
        )


def print_json(what: object) -> None:
    """One line of JSON for the process that started this one."""
    print(msgspec.json.encode(what).decode(), flush=True)
