"""This room is one websocket of a broker as the controller knows it: what it is told, in order.

What is said goes through a bounded outbox, so a stopped broker never holds up the lane; its link is closed
instead (design chapter 4.2).
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from muster.messages import codec
from muster.messages.limits import MAX_FRAME_TO_BROKER_BYTES
from muster.messages.link.to_broker import ToBroker
from runtime.of_loops import OfLoops
from runtime.slices import Slices

OUTBOX_BYTES: Final = MAX_FRAME_TO_BROKER_BYTES

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGE_BYTES: Final = 64 * 1024
"""A frame of so many bytes or more leaves in a round of the loop of its own."""

_numbers = itertools.count(1)


_large_frames = OfLoops(lambda loop: Slices(loop, 0.0))
"""What a turn of thousands of partitions says to all brokers leaves one in a round: to send what thirty are
told takes as long as to decide it.
"""


class BrokerLink:
    """One websocket of a broker, as the controller's service knows it; compared by identity.

    `say` and `hang_up` return at once and may be called by the service only, on the node's loop.
    """

    def __init__(self, broker_id: int, peer: str) -> None:
        self.number = next(_numbers)
        self.broker_id = broker_id
        self.peer = peer
        self.is_unbound = False
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting_bytes = 0
        self._reason = ""

    def __repr__(self) -> str:
        return f"link {self.number} of broker {self.broker_id}"

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were said and are not yet with the socket."""
        return self._waiting_bytes

    @property
    def reason(self) -> str:
        """Why it was hung up; "" if it was not."""
        return self._reason

    def say(self, frame: ToBroker, encode: Callable[[ToBroker], bytes] = codec.encode) -> None:
        """Append a frame; a link whose outbox is full is hung up: nothing is ever left out in between."""
        if self.is_unbound:
            return
        data = encode(frame)
        if self._waiting_bytes and self._waiting_bytes + len(data) > OUTBOX_BYTES:
            self.hang_up(f"more than {OUTBOX_BYTES} bytes wait for the broker")
            return
        self._waiting_bytes += len(data)
        self._waiting.put_nowait(data)

    def hang_up(self, reason: str) -> None:
        """Read nothing more, send what was said before, close."""
        if self.is_unbound:
            return
        self.is_unbound = True
        self._reason = reason
        self._waiting.put_nowait(None)

    async def write(self, send: Send) -> None:
        """The one writer: sends in order until the link is hung up."""
        large_frames = _large_frames.of(asyncio.get_running_loop())
        while (data := await self._waiting.get()) is not None:
            if len(data) >= LARGE_BYTES:
                await large_frames.turn()
            await send({"type": "websocket.send", "text": data.decode()})
            self._waiting_bytes -= len(data)
