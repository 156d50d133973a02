"""A follower receives frames of any size in any pieces, and one mistake ends its connection."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from broker.peer_connection import SMALL_BYTES, PeerConnection
from muster.kafkawire.errors import FrameTooLarge


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def received(pieces: list[bytes]) -> list[bytes]:
    """What is heard when these pieces arrive one after the other."""
    heard: list[bytes] = []

    async def receive() -> None:
        connection = PeerConnection(lambda frame: heard.append(bytes(frame)))
        for piece in pieces:
            while piece:
                room = connection.get_buffer(-1)
                count = min(len(room), len(piece))
                room[:count] = piece[:count]
                connection.buffer_updated(count)
                piece = piece[count:]
        await connection.leave()

    asyncio.run(receive())
    return heard


SIZES = (4, 500, SMALL_BYTES - 4, SMALL_BYTES, 3 * SMALL_BYTES + 7, 9)
FRAMES = [bytes([65 + number]) * size for number, size in enumerate(SIZES)]


@pytest.mark.parametrize("size", [1_000, 4_096, SMALL_BYTES, 10**6])
def test_frames_arrive_whole_in_whatever_pieces(size: int) -> None:
    together = b"".join(map(framed, FRAMES))
    assert received([together[at : at + size] for at in range(0, len(together), size)]) == FRAMES


def test_a_frame_arrives_byte_by_byte() -> None:
    assert received([bytes([one]) for one in framed(b"hello")]) == [b"hello"]


@asynccontextmanager
async def connected(
    hear: Callable[[memoryview], None],
) -> AsyncIterator[tuple[PeerConnection, asyncio.StreamWriter]]:
    """A connection and its peer's end."""
    peers: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    server = await asyncio.start_server(lambda _, writer: peers.put_nowait(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    connection = PeerConnection(hear)
    connection.take_over(writer.transport)
    peer = await peers.get()
    try:
        yield connection, peer
    finally:
        await connection.leave()
        peer.close()
        server.close()
        await server.wait_closed()


async def test_what_is_raised_by_whoever_hears_ends_the_connection() -> None:
    def hear(_frame: memoryview) -> None:
        raise ValueError("our own mistake")

    async with connected(hear) as (connection, peer):
        peer.write(framed(b"hello"))
        with pytest.raises(ValueError, match="our own mistake"):
            await asyncio.wait_for(connection.closed, 5)


async def test_a_frame_above_the_limit_ends_the_connection() -> None:
    async with connected(lambda _: None) as (connection, peer):
        peer.write((2**31 - 1).to_bytes(4, "big"))
        with pytest.raises(FrameTooLarge):
            await asyncio.wait_for(connection.closed, 5)


async def test_a_peer_that_hangs_up_ends_the_connection() -> None:
    async with connected(lambda _: None) as (connection, peer):
        peer.close()
        with pytest.raises(EOFError):
            await asyncio.wait_for(connection.closed, 5)
