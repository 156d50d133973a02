"""Whatever way a frame comes in, the application hears the same texts in the same order, or a close code."""

import asyncio
import gc
import struct
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from coordinator.sockets import TEXT_EXTENSION
from node.websocket import OTHER_FRAMES_A_SECOND, TextWebSocket

BOUND_S = 60.0
FRAME_LIMIT_BYTES = 100_000
MASK = b"\x11\x82\x33\xf4"
REQUEST = (
    b"GET / HTTP/1.1\r\nHost: node\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
TEXT, CONTINUATION, BINARY, CLOSE, PING = 1, 0, 2, 8, 9


def frame(payload: bytes, opcode: int = TEXT, *, last: bool = True, masked: bool = True) -> bytes:
    size, bit = len(payload), 0x80 if masked else 0
    head = bytes([(0x80 if last else 0) | opcode])
    if size < 126:
        head += bytes([bit | size])
    elif size < 65_536:
        head += struct.pack(">BH", bit | 126, size)
    else:
        head += struct.pack(">BQ", bit | 127, size)
    if not masked:
        return head + payload
    return head + MASK + bytes(byte ^ MASK[place % 4] for place, byte in enumerate(payload))


class Application:
    """Echoes each text by the short way, if it takes it; `pause_s` is what it answers to each."""

    takes_the_short_way = True
    answers = 101

    def __init__(self) -> None:
        self.principal = "ann"
        self.heard: list[str] = []
        self.events: list[str] = []
        self.refusals = 0
        self.pause_s = 0.0
        self.line: Any = None
        self.rests = False
        self.read_on: list[Callable[[], None]] = []
        self.longest = FRAME_LIMIT_BYTES
        self.asked: list[int] = []
        self.ended = asyncio.Event()
        self.may_begin = asyncio.Event()
        self.may_begin.set()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.line = scope["extensions"][TEXT_EXTENSION]
        await receive()
        if self.answers != 101:
            await send({"type": "websocket.http.response.start", "status": self.answers, "headers": []})
            await send({"type": "websocket.http.response.body", "body": b""})
            self.ended.set()
            return
        if self.takes_the_short_way:
            self.line.hear_by(self.hear, self.fits, self.principal)
        await self.may_begin.wait()
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] != "websocket.disconnect":
            self.events.append(event["type"])
        self.ended.set()

    def fits(self, size_bytes: int) -> bool:
        self.asked.append(size_bytes)
        return size_bytes <= self.longest

    def hear(self, text: str) -> float:
        self.heard.append(text)
        self.refusals += not self.line.say_now(text.encode())
        if self.rests:
            self.read_on.append(self.line.rest())
        return self.pause_s


class Peer:
    """A raw client behind an open websocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def next_frame(self) -> tuple[int, bytes]:
        first, size = await self.reader.readexactly(2)
        if size == 126:
            (size,) = struct.unpack(">H", await self.reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", await self.reader.readexactly(8))
        return first & 0x0F, await self.reader.readexactly(size)


@asynccontextmanager
async def connected(application: Application, early: bytes = b"") -> AsyncIterator[Peer]:
    """`early`: what is sent before the answer."""
    settings = uvicorn.Config(
        application,
        port=0,
        ws=TextWebSocket,
        ws_ping_interval=None,
        ws_per_message_deflate=False,
        ws_max_size=FRAME_LIMIT_BYTES,
        lifespan="off",
        log_config=None,
    )
    server = uvicorn.Server(settings)
    settings.load()
    server.lifespan = settings.lifespan_class(settings)
    async with asyncio.timeout(BOUND_S):
        await server.startup()
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        if early:
            while application.line is None:
                await asyncio.sleep(0)
            writer.write(early)
            while not application.line._rest:
                await asyncio.sleep(0)
            application.may_begin.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 %d" % application.answers)
        try:
            yield Peer(reader, writer)
        finally:
            writer.close()
            await application.ended.wait()
            await server.shutdown()


async def test_many_texts_of_one_segment_are_echoed_in_order() -> None:
    application = Application()
    async with connected(application) as peer:
        texts = [b"", b"x" * 125, b"x" * 126, b"x" * 65_535, b"x" * 65_536, "Grüße".encode()]
        peer.send(b"".join(frame(text) for text in texts))
        assert [await peer.next_frame() for _ in texts] == [(TEXT, text) for text in texts]
    assert application.events == []


async def test_a_text_may_be_cut_anywhere() -> None:
    application = Application()
    async with connected(application) as peer:
        whole = frame(b"one") + frame(b"y" * 300) + frame(b"three")
        for place in range(len(whole)):
            peer.send(whole[place : place + 1])
            await peer.writer.drain()
            await asyncio.sleep(0)
        assert [(await peer.next_frame())[1] for _ in range(3)] == [b"one", b"y" * 300, b"three"]


async def test_fragments_and_pings_between_texts_keep_their_order() -> None:
    application = Application()
    async with connected(application) as peer:
        peer.send(
            frame(b"one")
            + frame(b"t", last=False)
            + frame(b"hello", PING)
            + frame(b"wo", CONTINUATION)
            + frame(b"three")
        )
        answers = [await peer.next_frame() for _ in range(4)]
    assert application.heard == ["one", "two", "three"]
    assert [payload for opcode, payload in answers if opcode == TEXT] == [b"one", b"two", b"three"]
    assert (10, b"hello") in answers


async def test_a_binary_message_reaches_the_application_as_an_event() -> None:
    application = Application()
    async with connected(application) as peer:
        peer.send(frame(b"\0", BINARY) + frame(b"after"))
        assert await peer.next_frame() == (TEXT, b"after")
    assert application.events == ["websocket.receive"]


@pytest.mark.parametrize(
    ("wrong", "close_code"),
    [
        (lambda: frame(b"no mask", masked=False), 1002),
        (lambda: bytes([0x81, 0xFF]) + struct.pack(">Q", FRAME_LIMIT_BYTES + 1) + MASK, 1009),
        (lambda: bytes([0x81, 0xFF]) + struct.pack(">Q", 2**63) + MASK, 1009),
        (lambda: frame(b"\xff\xfe"), 1007),
        (lambda: bytes([0xC1]) + frame(b"a reserved bit")[1:], 1002),
        (lambda: frame(b"t", last=False) + frame(b"not a continuation"), 1002),
    ],
)
async def test_what_breaks_the_protocol_is_closed_with_its_code(
    wrong: Callable[[], bytes], close_code: int
) -> None:
    application = Application()
    async with connected(application) as peer:
        peer.send(frame(b"fine") + wrong())
        assert await peer.next_frame() == (TEXT, b"fine")
        opcode, payload = await peer.next_frame()
        assert (opcode, int.from_bytes(payload[:2], "big")) == (CLOSE, close_code)
    assert application.heard == ["fine"]


async def test_nothing_is_heard_until_the_application_reads_on() -> None:
    """Also of what came in one piece, whoever else would have it read on."""
    application = Application()
    application.rests = True
    async with connected(application) as peer:
        for number in range(3):
            peer.send(frame(b"one") + frame(b"two"))
            async with asyncio.timeout(BOUND_S):
                while len(application.read_on) < 2 * number + 1:
                    await asyncio.sleep(0.005)
            for _ in range(20):
                application.line._go_on()
                await asyncio.sleep(0)
            assert len(application.heard) == 2 * number + 1
            application.read_on[-1]()
            async with asyncio.timeout(BOUND_S):
                while len(application.read_on) < 2 * number + 2:
                    await asyncio.sleep(0.005)
            assert application.heard == ["one", "two"] * (number + 1)
            application.read_on[-1]()


async def test_nothing_is_heard_while_reading_rests() -> None:
    application = Application()
    application.pause_s = 0.05
    async with connected(application) as peer:
        began = asyncio.get_running_loop().time()
        peer.send(frame(b"one") + frame(b"two") + frame(b"three")[:5])
        peer.send(frame(b"three")[5:])
        assert [(await peer.next_frame())[1] for _ in range(3)] == [b"one", b"two", b"three"]
        # A bound from below, which no slow machine can break.
        assert asyncio.get_running_loop().time() - began >= 0.09


async def test_nor_is_anything_kept_when_the_application_has_taken_an_event_meanwhile() -> None:
    application = Application()
    application.pause_s = BOUND_S
    async with connected(application) as peer:
        peer.send(frame(b"binary", BINARY) + frame(b"text"))
        while not (application.heard and application.events):
            await asyncio.sleep(0)
        more = frame(b"x" * 60_000)
        while peer.writer.transport.get_write_buffer_size() < 1_000_000:
            # Its kernel and ours take some megabytes.
            peer.send(more)
            await asyncio.sleep(0)
            assert len(application.line._rest) < 1_000_000, "it is read, and kept"
        application.pause_s = 0.0
        application.line._go_on()


async def test_a_peer_that_reads_nothing_is_told_nothing_at_once() -> None:
    application = Application()
    async with connected(application) as peer:
        # Masked once: how many fill the kernel's buffers is the machine's affair.
        text = frame(b"z" * 60_000)
        while not application.refusals:
            peer.send(text)
            await peer.writer.drain()
        assert application.refusals >= 1
        for _ in range(len(application.heard) - application.refusals):
            assert await peer.next_frame() == (TEXT, b"z" * 60_000)


@pytest.mark.parametrize("pieces", [(b"\xff",), (b"a", b"\xff")])
async def test_who_hears_the_long_way_gets_no_broken_text_either(
    pieces: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    application = Application()
    application.takes_the_short_way = False
    async with connected(application) as peer:
        first, *others = pieces
        peer.send(frame(first, last=not others))
        for place, piece in enumerate(others, 1):
            peer.send(frame(piece, CONTINUATION, last=place == len(others)))
        opcode, payload = await peer.next_frame()
        assert (opcode, payload) == (CLOSE, (1007).to_bytes(2) + b"the text is not UTF-8")
    assert application.events == []
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_whoever_is_refused_is_no_error_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    application = Application()
    application.answers = 401
    async with connected(application):
        pass
    await asyncio.sleep(0)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_what_is_said_to_a_peer_that_is_gone_disturbs_nobody() -> None:
    application = Application()
    async with connected(application) as peer:
        peer.send(frame(b"hello"))
        assert await peer.next_frame() == (TEXT, b"hello")
        peer.writer.transport.abort()
        await application.ended.wait()
        assert application.line.say_now(b"goodbye") is False


async def test_a_frame_that_is_too_long_is_refused_by_its_head_and_never_kept() -> None:
    application = Application()
    application.longest = 80_000
    async with connected(application) as peer:
        whole = frame(b"x" * 90_000)
        peer.send(frame(b"before") + whole[:20])
        assert await peer.next_frame() == (TEXT, b"before")
        while not application.asked:
            await asyncio.sleep(0)
        assert not application.line._rest, "what came of it is kept"
        peer.send(whole[20:50_000])
        await peer.writer.drain()
        allowed = frame(b"y" * 80_000)
        peer.send(whole[50_000:] + allowed[:30])
        while len(application.asked) < 2:
            await asyncio.sleep(0)
        peer.send(allowed[30:] + frame(b"after"))
        assert [(await peer.next_frame())[1] for _ in range(2)] == [b"y" * 80_000, b"after"]
    assert application.asked == [90_000, 80_000]


async def test_fragments_that_are_too_long_together_are_not_kept() -> None:
    application = Application()
    application.longest = 70_000
    async with connected(application) as peer:
        peer.send(frame(b"x" * 60_000, last=False) + frame(b"x" * 5_000, CONTINUATION, last=False))
        peer.send(frame(b"x" * 6_000, CONTINUATION, last=False) + frame(b"ping", PING))
        assert await peer.next_frame() == (10, b"ping")
        assert application.line.frames == []
    assert application.asked == [71_000]


async def test_of_a_message_that_is_refused_no_later_fragment_is_heard() -> None:
    application = Application()
    application.longest = 70_000
    async with connected(application) as peer:
        peer.send(frame(b"x" * 60_000, last=False) + frame(b"x" * 15_000, CONTINUATION, last=False))
        peer.send(frame(b"rest", CONTINUATION, last=False) + frame(b"end", CONTINUATION) + frame(b"after"))
        assert await peer.next_frame() == (TEXT, b"after")
    assert application.heard == ["after"]


async def test_fragments_that_say_nothing_take_no_room() -> None:
    application = Application()
    async with connected(application) as peer:
        peer.send(frame(b"one", last=False) + frame(b"", CONTINUATION, last=False) * 1_000)
        peer.send(frame(b",two", CONTINUATION, last=False) + frame(b"ping", PING))
        assert await peer.next_frame() == (10, b"ping")
        assert application.line.frames == [b"one,two"], "each fragment is kept, and counted with the next"
        peer.send(frame(b"", CONTINUATION))
        assert await peer.next_frame() == (TEXT, b"one,two")
    assert application.heard == ["one,two"]


async def test_what_comes_before_the_answer_is_heard_the_short_way() -> None:
    application = Application()
    application.may_begin.clear()
    async with connected(application, frame(b"early")) as peer:
        peer.send(frame(b"later"))
        assert [(await peer.next_frame())[1] for _ in range(2)] == [b"early", b"later"]


async def test_whoever_takes_no_answer_to_its_pings_is_read_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("node.websocket.OTHER_FRAMES_A_SECOND", 1_000_000)
    application = Application()
    async with connected(application) as peer:
        pings = frame(b"p" * 125, PING) * 500
        while application.line is None or not application.line._waits_for_the_peer:
            # Its kernel and ours take some megabytes.
            peer.send(pings)
            await asyncio.sleep(0)
        transport = application.line.transport
        _, high = transport.get_write_buffer_limits()
        for _ in range(20):
            peer.send(pings)
            await asyncio.sleep(0.001)
            assert transport.get_write_buffer_size() <= high + 127
        peer.send(frame(b"after"))
        while (await peer.next_frame()) != (TEXT, b"after"):
            pass


async def test_a_pause_keeps_no_websocket_in_memory_that_is_closed() -> None:
    application = Application()
    application.pause_s = 3_600.0
    async with connected(application) as peer:
        peer.send(frame(b"a text"))
        async with asyncio.timeout(BOUND_S):
            while not application.line._resting:
                await asyncio.sleep(0)
        left = weakref.ref(application.line)
        # As long as it rests nobody sees that its peer goes: its own door ends it.
        application.line.transport.abort()
        application.line = None
    gc.collect()
    assert left() is None


async def test_pings_without_end_wait_as_texts_do() -> None:
    application = Application()
    async with connected(application) as peer:
        began = asyncio.get_running_loop().time()
        number = 2 * OTHER_FRAMES_A_SECOND + 1
        peer.send(frame(b"", PING) * number)
        for _ in range(number):
            await peer.next_frame()
        # A bound from below, which no slow machine can break.
        assert asyncio.get_running_loop().time() - began >= 0.9
