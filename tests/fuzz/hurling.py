"""This room throws spoilt frames at every door of a house, and reads each answer as a client would."""

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from broker.core.peer_proof import NONCE_BYTES, FollowerSide, Incarnation
from broker.introduction import framed
from muster.kafkawire.api_table import (
    SERVED,
    ApiKey,
    RequestHeader,
    read_body,
    read_request_header,
    reply_body_start,
    response_class,
)
from muster.kafkawire.errors import KafkaWireError
from muster.messages import codec
from muster.messages.errors import RemoteMessageError
from tests.fuzz import mutations, text_frames
from tests.fuzz.house import CLASSIC, NATIVE, TOKENS, House
from tests.fuzz.kafka_frames import VERSIONS, Version, kafka_request
from tests.fuzz.watching import Watch
from tests.unit.broker_data_plane.planes import KEY
from tests.unit.kafkaserver.kafka_requests import frame as request_frame

TURNS = 3
"""So many turns of the loop after a piece: time to read, serve and answer it."""

TURNS_AT_MOST = 12
TAKEN_WITHIN_S = 20.0
OPEN_AT_ONCE = 150
CLOSE_CODES = frozenset({1000, 1001, 1002, 1003, 1007, 1008, 1009})
"""1005 and 1006 would mean that nothing was said, 1011 that it was our own mistake."""
OF_APPLICATIONS = range(3000, 5000)
"""No door says these by itself; it gives back what it was told."""

REPLICATION_VERSIONS = tuple((ApiKey.FETCH, version) for version in (15, 16))
SASL_VERSIONS = tuple(
    one
    for one in VERSIONS
    if one[0] in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS)
)
BROKER_KEYS = (
    *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH),
    *(ApiKey.DELETE_RECORDS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.ALTER_REPLICA_LOG_DIRS),
    ApiKey.DESCRIBE_PRODUCERS,
    *(ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.INIT_PRODUCER_ID),
)


class Line:
    """One TCP connection to a door; what comes back is kept until it is judged."""

    def __init__(self, watch: Watch, door: str, opened: socket.socket) -> None:
        self.watch = watch
        self.door = door
        self.socket = opened
        self.heard = bytearray()
        self.ended = False

    @classmethod
    async def to(cls, watch: Watch, door: str, port: int) -> "Line":
        opened = socket.socket()
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", port))
        return cls(watch, door, opened)

    async def throw(self, data: bytes, pieces: int = 1) -> None:
        """Send in so many pieces, and let the door work; a door that is gone already takes nothing."""
        size = max(1, -(-len(data) // pieces))
        self.watch.throws(self.door, data)
        for start in range(0, len(data), size):
            try:
                async with asyncio.timeout(TAKEN_WITHIN_S):
                    await asyncio.get_running_loop().sock_sendall(self.socket, data[start : start + size])
            except TimeoutError:
                self.watch.outcomes["not read"] += 1
                return
            except OSError:
                pass
            for _ in range(TURNS):
                await asyncio.sleep(0)
            self.hear()

    def hear(self) -> None:
        """Take what is here."""
        while not self.ended:
            try:
                some = self.socket.recv(1 << 18)
            except BlockingIOError:
                return
            except OSError:
                some = b""
            self.ended = not some
            self.heard += some

    async def hear_until(self, condition: Callable[[bytearray], bool]) -> None:
        """Wait shortly for something; whoever has parked it does not say it."""
        for _ in range(TURNS_AT_MOST):
            self.hear()
            if self.ended or condition(self.heard):
                return
            await asyncio.sleep(0)

    def close(self, *, abrupt: bool = False) -> None:
        if abrupt:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


@dataclass
class Hurler:
    """Throws frames `number`, `number` + 1, …: each is made of the seed and its number alone."""

    seed: int
    house: House
    watch: Watch

    def __post_init__(self) -> None:
        self._open: deque[Line] = deque()

    async def throw(self, numbers: range) -> None:
        """All of them, a few on each connection."""
        place = numbers.start
        while place < numbers.stop:
            dice = Random(f"{self.seed}/{place}")
            some = min(dice.choice((1, 2, 4, 8)), numbers.stop - place)
            self.watch.number = place
            kinds: Sequence[Callable[[Random, int], Any]] = (
                partial(self._kafka, "gateway", VERSIONS),
                partial(self._kafka, "broker", VERSIONS),
                partial(self._kafka, "replication", REPLICATION_VERSIONS),
                partial(self._kafka, "sasl", SASL_VERSIONS),
                self._members,
                self._brokers,
                self._handshakes,
            )
            [kind] = dice.choices(kinds, (8, 6, 1, 1, 7, 2, 1))
            await kind(dice, some)
            self.watch.outcomes["frames"] += some
            place += some

    def hang_up(self) -> None:
        """Close whatever was left open."""
        while self._open:
            self._open.popleft().close()

    def _leave(self, dice: Random, line: Line) -> None:
        """Some lines stay open, in the middle of a frame or of an answer; of these the oldest is closed."""
        line.hear()
        if not line.ended and dice.random() < 0.3:
            self._open.append(line)
            if len(self._open) > OPEN_AT_ONCE:
                self._open.popleft().close(abrupt=dice.random() < 0.5)
        else:
            line.close(abrupt=dice.random() < 0.3)

    # --- Kafka ---------------------------------------------------------------------------------------------

    async def _kafka(self, door: str, versions: Sequence[Version], dice: Random, some: int) -> None:
        line, asked = await self._kafka_line(dice, door)
        for number in range(some):
            if line.ended:
                self._end_kafka(dice, line, asked)
                line, asked = await self._kafka_line(dice, door)
            version, other = self._version(dice, door, versions), dice.choice(versions)
            frame = kafka_request(dice, self.house.known, version, number)
            data = mutations.spoilt_kafka(
                dice, frame, partial(kafka_request, dice, self.house.known, other, number)
            )
            asked.expect(data)
            await line.throw(data, dice.choice((1, 1, 1, 2, 5)))
            await line.hear_until(asked.is_answered)
        self._end_kafka(dice, line, asked)

    async def _kafka_line(self, dice: Random, door: str) -> "tuple[Line, Asked]":
        """A connection whose gate is passed, mostly."""
        line = await Line.to(self.watch, door, self.house.ports[door])
        asked = Asked(self.watch, door)
        if door == "replication" and dice.random() < 0.8:
            await _introduce(line, self.house.broker.plane.broker_id)
        elif door == "sasl" and dice.random() < 0.6:
            mechanism = dice.choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))
            handshake = request_frame(ApiKey.SASL_HANDSHAKE, dice.choice((0, 1)), mechanism=mechanism)
            await line.throw(framed(bytes(handshake)))
            asked.is_lost = True
        return line, asked

    def _end_kafka(self, dice: Random, line: Line, asked: "Asked") -> None:
        asked.judge(line.heard, line.ended)
        self._leave(dice, line)

    def _version(self, dice: Random, door: str, versions: Sequence[Version]) -> Version:
        if door == "broker" and dice.random() < 0.7:
            return dice.choice([one for one in versions if one[0] in BROKER_KEYS])
        return dice.choice(versions)

    # --- websockets ----------------------------------------------------------------------------------------

    async def _members(self, dice: Random, some: int) -> None:
        name = dice.choice(sorted(TOKENS))
        key = dice.choice((NATIVE, NATIVE, NATIVE, CLASSIC, "elsewhere"))
        register = {
            **{"type": "RegisterConsumer", "correlation_id": 1, "group_id": NATIVE, "consumer_id": name},
            **{"token": TOKENS[name], "topic_count": [{"topic": "orders"}], "session_timeout_ms": 9_000},
        }
        opening = partial(self._websocket, "member", "/ws/consumer/", {"Authorization": f"Bearer {name}"})
        message = partial(text_frames.member_message, dice, key, name, TOKENS[name])
        await self._talk(dice, some, opening, register, message, codec.decode_to_member)

    async def _brokers(self, dice: Random, some: int) -> None:
        hello = {"type": "BrokerHello", "broker_id": 1, "incarnation": "a", "endpoints": {}}
        opening = partial(self._websocket, "link", "/ws/broker/", {"Authorization": "Bearer 1:secret"})
        message = partial(text_frames.broker_message, dice)
        await self._talk(dice, some, opening, hello, message, codec.decode_to_broker)

    async def _talk(
        self,
        dice: Random,
        some: int,
        opening: Callable[[], Awaitable[Line]],
        first: Mapping[str, Any],
        message: Callable[[], bytes],
        decode: Callable[[bytes], Any],
    ) -> None:
        """So many frames; who was hung up on comes again, and mostly says first what it should."""
        line = None
        for _ in range(some):
            if line is None or line.ended:
                if line is not None:
                    self._end_websocket(dice, line, decode)
                line = await opening()
                if dice.random() < 0.75:
                    await line.throw(text_frames.websocket_frame(json.dumps(first).encode()))
            spoilt = text_frames.spoilt_json(dice, message(), message)
            is_whole = dice.random() < 0.75
            data = text_frames.websocket_frame(spoilt) if is_whole else text_frames.badly_framed(dice, spoilt)
            await line.throw(data, dice.choice((1, 1, 1, 2, 5)))
            await line.hear_until(lambda _: False)
        if line is not None:
            self._end_websocket(dice, line, decode)

    async def _websocket(self, door: str, path: str, headers: Mapping[str, str]) -> Line:
        """An open websocket; the answer to its handshake is taken."""
        line = await Line.to(self.watch, door, self.house.ports["http"])
        await line.throw(text_frames.handshake(path, headers))
        await line.hear_until(lambda heard: b"\r\n\r\n" in heard)
        head, _, rest = bytes(line.heard).partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            self.watch.find(f"a good handshake was answered: {head[:80]!r}")
        line.heard = bytearray(rest)
        return line

    def _end_websocket(self, dice: Random, line: Line, decode: Callable[[bytes], Any]) -> None:
        closed = None
        for kind, payload in text_frames.frames_of(line.heard):
            if kind == text_frames.TEXT:
                self._judge_text(payload, decode)
            elif kind == text_frames.CLOSE:
                closed = (int.from_bytes(payload[:2]), payload[2:].decode())
        if closed is not None:
            code, reason = closed
            self.watch.reasons[f"{code} {reason.split(':')[0][:40]}"] += 1
            echoed = code in OF_APPLICATIONS or not code
            if not echoed and (code not in CLOSE_CODES or (code != 1000 and not reason)):
                self.watch.find(f"closed with {code} and the reason {reason!r}")
        elif line.ended:
            self.watch.find("a websocket ended without a close frame")
        self.watch.outcomes["closed" if line.ended else "left open"] += 1
        self._leave(dice, line)

    def _judge_text(self, payload: bytes, decode: Callable[[bytes], Any]) -> None:
        try:
            said = decode(payload)
        except RemoteMessageError as error:
            self.watch.find(f"said what no peer understands: {error}: {payload[:200]!r}")
            return
        self.watch.outcomes["answers"] += 1
        if getattr(said, "error_code", 0) == -1:
            self.watch.find(f"an untyped error: {said}")

    async def _handshakes(self, dice: Random, some: int) -> None:
        for _ in range(some):
            line = await Line.to(self.watch, "http", self.house.ports["http"])
            path = dice.choice(("/ws/consumer/", "/ws/broker/", "/readyz", "/metrics", "/nowhere"))
            token = dice.choice(
                ("Bearer ann", "Bearer nobody", "Bearer 1:secret", "Basic x", "Bearer " + "x" * 999)
            )
            whole = text_frames.handshake(path, {"Authorization": token})
            await line.throw(mutations.spoilt(dice, whole, partial(bytes, whole)), dice.choice((1, 1, 3)))
            await line.hear_until(lambda heard: b"\r\n" in heard)
            if line.heard and not line.heard.startswith(b"HTTP/1.1 "):
                self.watch.find(f"HTTP was answered {bytes(line.heard[:80])!r}")
            if line.heard.startswith((b"HTTP/1.1 500", b"HTTP/1.1 502")):
                self.watch.find(f"HTTP was answered {bytes(line.heard[:80])!r}")
            self._leave(dice, line)


class Asked:
    """What is asked on one Kafka connection, and whether the answers fit."""

    def __init__(self, watch: Watch, door: str) -> None:
        self._watch = watch
        self._door = door
        self._headers: deque[RequestHeader] = deque()
        self.awaited = 0
        self.is_lost = False
        """True once the stream cannot be followed: a length was wrong, or frames had no header."""

    def expect(self, data: bytes) -> None:
        """A frame that leaves now."""
        if len(data) < 4 or int.from_bytes(data[:4]) != len(data) - 4 or self._door == "replication":
            self.is_lost = True
        if self.is_lost:
            return
        try:
            self._headers.append(read_request_header(memoryview(data)[4:]))
            self.awaited += 1
        except KafkaWireError:
            self.is_lost = True

    def is_answered(self, heard: bytearray) -> bool:
        """Whether as much came as was asked; whoever waits for something may wait for ever."""
        return sum(1 for _ in _cut(heard)) >= self.awaited

    def judge(self, heard: bytearray, ended: bool) -> None:
        """Each answer is the one of a request, in their order, and can be read."""
        outcomes = self._watch.outcomes
        outcomes["closed" if ended else "left open"] += 1
        for answer in _cut(heard):
            outcomes["answers"] += 1
            if not self.is_lost or self._headers:
                self._judge(answer)

    def _judge(self, answer: bytes) -> None:
        number = int.from_bytes(answer[:4], signed=True)
        while self._headers and self._headers[0].correlation_id != number:
            self._headers.popleft()
        if not self._headers:
            if not self.is_lost:
                self._watch.find(f"an answer to {number}, which nobody asked: {answer[:60].hex()}")
            return
        header = self._headers.popleft()
        api = SERVED[header.api_key]
        version = header.api_version if header.api_version <= api.maximum else 0
        version = version if version >= api.minimum else 0
        try:
            start = reply_body_start(header.api_key, version, answer)
            body = read_body(response_class(header.api_key, version), answer, start)
        except KafkaWireError as error:
            self._watch.find(
                f"{api.key.name} {version} was answered unreadably: {error}: {answer[:300].hex()}"
            )
            return
        if -1 in _error_codes(body):
            self._watch.find(f"{api.key.name} {version} was answered with an untyped error: {body}")


def _cut(heard: bytearray) -> Iterable[bytes]:
    place = 0
    while place + 4 <= len(heard):
        end = place + 4 + int.from_bytes(heard[place : place + 4])
        if end > len(heard):
            return
        yield bytes(heard[place + 4 : end])
        place = end


def _error_codes(body: Any) -> Iterable[int]:
    if hasattr(body, "error_code"):
        yield int(body.error_code)
    for name in getattr(body, "__dataclass_fields__", ()):
        value = getattr(body, name)
        if isinstance(value, tuple):
            for one in value:
                if hasattr(one, "__dataclass_fields__"):
                    yield from _error_codes(one)


async def _introduce(line: Line, leader: int) -> None:
    """Prove to be broker 2."""
    side = FollowerSide(KEY, Incarnation(2, 1), leader, bytes(NONCE_BYTES))
    await line.throw(framed(side.introduction()))
    await line.hear_until(lambda heard: any(_cut(heard)))
    for challenge in _cut(line.heard):
        await line.throw(framed(side.proof(challenge)))
    line.heard.clear()
