"""This room asks the controller what only it decides, over the link."""

import asyncio
import itertools
from collections.abc import Callable

import msgspec

from kafkaserver.admin.asking import (
    ANSWER_GRACE_S,
    ControllerUnreachable,
    TooLargeToForward,
    answer_of,
    waits_s,
)
from kafkaserver.producer_ids import ProducerIdBlock
from muster.messages import codec
from muster.messages.limits import MAX_FRAME_FROM_BROKER_BYTES
from muster.messages.link.from_broker import AllocateProducerIds, CreateTopics, FromBroker, Wish
from muster.messages.link.protocol import WISHES
from muster.messages.link.to_broker import ProducerIds, WishAnswer

PRODUCER_IDS_TIMEOUT_S = 5.0
REQUESTS = 1_000
"""Forwarded requests that may wait for the controller at once."""

SendFrame = Callable[[FromBroker], bool]


class Forwarding:
    """Questions on their way to the controller; an answer is believed only on the link that asked.

    A question whose link breaks ends with ControllerUnreachable: whether the controller heard it is
    unknown, and the client asks again (a topic that exists by then says so).
    """

    def __init__(self, send: SendFrame) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[WishAnswer]] = {}
        self._waiting = 0
        """Those that wait for a link included."""
        self._linked = asyncio.Event()
        self._protocol = 0

    def linked(self, protocol: int) -> None:
        """A link is bound to a node that understands this much (muster.messages.link.protocol)."""
        self._protocol = protocol

    def link_ready(self) -> None:
        """The snapshot of a link is applied: questions may go out."""
        self._linked.set()

    def link_lost(self) -> None:
        self._linked.clear()
        asked, self._asked = self._asked, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(ControllerUnreachable("the link to the controller broke"))

    def hear(self, answer: WishAnswer) -> None:
        """An answer came; one that nobody waits for any more is dropped."""
        future = self._asked.pop(answer.correlation_id, None)
        if future is not None and not future.done():
            future.set_result(answer)

    async def producer_ids(self) -> ProducerIdBlock:
        """A block of producer ids that nobody else was given. Raises ControllerUnreachable."""
        answer = await answer_of(self, AllocateProducerIds(), ProducerIds)
        return ProducerIdBlock(answer.first, answer.count)

    async def ask(self, wish: Wish) -> WishAnswer:
        """The controller's answer (Controller.ask). Raises ControllerUnreachable, TooLargeToForward."""
        if self._waiting >= REQUESTS:
            raise ControllerUnreachable("too many requests wait for the controller")
        number = next(self._numbers)
        frame = msgspec.structs.replace(wish, correlation_id=number)
        if len(codec.encode(frame)) > MAX_FRAME_FROM_BROKER_BYTES:
            # Sent, it would cost the link: every broker that the client then asks would lose its own.
            raise TooLargeToForward("the request is too large to be forwarded")
        is_urgent = isinstance(wish, AllocateProducerIds)
        timeout_s = PRODUCER_IDS_TIMEOUT_S if is_urgent else waits_s(wish) + ANSWER_GRACE_S
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout_s):
                await self._linked.wait()
                if self._protocol < WISHES and not isinstance(wish, CreateTopics | AllocateProducerIds):
                    # It would end the link, and every broker that is asked next would lose its own.
                    raise ControllerUnreachable("the controller's node is older than this broker: upgrade it")
                future: asyncio.Future[WishAnswer] = asyncio.get_running_loop().create_future()
                self._asked[number] = future
                if not self._send(frame):
                    raise ControllerUnreachable("there is no link to the controller")
                return await future
        except TimeoutError:
            raise ControllerUnreachable("the controller did not answer in time") from None
        finally:
            self._waiting -= 1
            self._asked.pop(number, None)
