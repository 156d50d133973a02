"""This room introduces brokers to each other on a fresh replication connection, at both of its ends."""

import asyncio
import secrets
import struct
from collections.abc import Callable
from typing import Final

from broker.core.peer_proof import NONCE_BYTES, FollowerSide, Incarnation, LeaderSide, ReplicationKey
from muster.kafkawire.framing import LENGTH_BYTES, frame_bytes

MOST_BYTES: Final = 1_024
"""No frame of an introduction is longer."""

_LENGTH = struct.Struct(">i")


class FollowersGate:
    """One connection to the replication listener, until its peer has proved who it is."""

    ended = ""
    held = b""

    def __init__(self, key: ReplicationKey, me: int) -> None:
        self._side = LeaderSide(key, me, secrets.token_bytes(NONCE_BYTES))

    def hear(self, frame: memoryview) -> bytes:
        """The whole frame to answer; b"": none. Raises NotAdmitted."""
        answer = self._side.hear(bytes(frame))
        return framed(answer) if answer else b""

    def leave(self) -> None:
        """Nobody waits for it."""

    @property
    def admitted(self) -> int | None:
        """The broker behind this connection, once it is known."""
        return None if self._side.admitted is None else self._side.admitted.broker_id


def gates(me: int, key: Callable[[], ReplicationKey]) -> Callable[[str], FollowersGate]:
    """A gate for each new connection; `key` is asked anew, because a controller may tell another."""
    return lambda _peer: FollowersGate(key(), me)


async def introduce(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    key: ReplicationKey,
    me: Incarnation,
    leader: int,
) -> None:
    """Show a leader who we are, and be shown that it is one.

    Raises NotAdmitted, FrameTooLarge, EOFError (asyncio.IncompleteReadError), OSError.
    """
    side = FollowerSide(key, me, leader, secrets.token_bytes(NONCE_BYTES))
    writer.write(framed(side.introduction()))
    length = frame_bytes(await reader.readexactly(LENGTH_BYTES), 0, MOST_BYTES)
    writer.write(framed(side.proof(await reader.readexactly(length))))


def framed(payload: bytes) -> bytes:
    """`payload` behind its length."""
    return _LENGTH.pack(len(payload)) + payload
