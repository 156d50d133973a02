"""This room is one websocket of a broker as the controller knows it: what it is told, in order.

What is said goes through a bounded outbox, so a stopped broker never holds up the lane; its link is closed
instead (design chapter 4.2).
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from muster.messages import codec
from muster.messages.limits import MAX_FRAME_TO_BROKER_BYTES
from muster.messages.link.to_broker import ToBroker

OUTBOX_BYTES: Final = MAX_FRAME_TO_BROKER_BYTES

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGE_BYTES: Final = 64 * 1024
"""A frame of so many bytes or more leaves in a round of the loop of its own."""

_numbers = itertools.count(1)


class Rounds:
    """Lets one pass in each round of the loop, first come first served; all else has its turn in between.

    A turn that changes thousands of partitions is told to all brokers at once: to send what thirty are told
    takes as long as to decide it.
    """

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def own(self) -> None:
        """Return in a round in which nobody else does."""
        loop = asyncio.get_running_loop()
        if self._is_taken:
            passed = loop.create_future()
            self._waiting.append(passed)
            await passed
        else:
            self._is_taken = True
            loop.call_soon(self._next)

    def _next(self) -> None:
        while self._waiting:
            passed = self._waiting.popleft()
            # Whoever was cancelled waits no more.
            if not passed.done():
                passed.set_result(None)
                asyncio.get_running_loop().call_soon(self._next)
                return
        self._is_taken = False


_rounds: WeakKeyDictionary[asyncio.AbstractEventLoop, Rounds] = WeakKeyDictionary()


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
        rounds = _rounds.setdefault(asyncio.get_running_loop(), Rounds())
        while (data := await self._waiting.get()) is not None:
            if len(data) >= LARGE_BYTES:
                await rounds.own()
            await send({"type": "websocket.send", "text": data.decode()})
            self._waiting_bytes -= len(data)
