"""This room answers InitProducerId at every door, out of blocks of ids that nobody else was given.

Where a block comes from is the door's: a broker asks the controller over its link (design.md 8a rule 8).
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import structlog

from kafkaserver.callers import PRODUCE, caller_of
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    build,
    encode_reply,
    read_request,
    response_class,
)
from muster.kernel.error_codes import ErrorCode

log = structlog.get_logger(__name__)

NO_PRODUCER_ID = -1
NO_EPOCH = -1


class ProducerIdBlock(NamedTuple):
    """Producer ids that this process alone may give out."""

    first: int
    size: int


class NoProducerIds(Exception):
    """No block can be had at present: the client is told to try again."""


class ProducerIds:
    """Serves InitProducerId. `take_block` gets the next block; it may raise NoProducerIds."""

    def __init__(self, take_block: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._take_block = take_block
        self._block = ProducerIdBlock(0, 0)
        self._refill: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_over = False

    def handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """A fresh producer id with epoch 0, whatever it had; transactions are not served.

        Raises MalformedFrame.
        """
        request = read_request(header, frame)
        if not caller_of(reply).may(PRODUCE):
            _answer(header, reply, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, NO_PRODUCER_ID)
        elif request.transactional_id is not None or _states_half_of_itself(request):
            _answer(header, reply, ErrorCode.INVALID_REQUEST, NO_PRODUCER_ID)
        elif self._block.size:
            _answer(header, reply, ErrorCode.NONE, self._next_id())
        else:
            self._start(self._give_after_refill(header, reply), reply)

    def cancel(self) -> None:
        """Wait for no block any more; the connections are about to close."""
        self._is_over = True
        for task in (*self._tasks, *([self._refill] if self._refill else [])):
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, None], reply: Reply) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and done.exception() is not None:
                log.error("producer_id_failed", peer=reply.peer, exc_info=done.exception())
            if reply.pieces is None and not self._is_over:
                # No answer behind it could ever leave.
                reply.hang_up("our own mistake")

        task.add_done_callback(ended)

    async def _give_after_refill(self, header: RequestHeader, reply: Reply) -> None:
        """One asks for a block, and whoever came meanwhile takes from it, or is refused with it."""
        while not self._block.size:
            if self._refill is None:
                self._refill = asyncio.create_task(self._refilled())
            try:
                await asyncio.shield(self._refill)
            except NoProducerIds:
                # What Kafka answers while its own block is on the way; clients try again.
                _answer(header, reply, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NO_PRODUCER_ID)
                return
        _answer(header, reply, ErrorCode.NONE, self._next_id())

    async def _refilled(self) -> None:
        try:
            self._block = await self._take_block()
        finally:
            self._refill = None

    def _next_id(self) -> int:
        first, size = self._block
        self._block = ProducerIdBlock(first + 1, size - 1)
        return first


def _states_half_of_itself(request: Any) -> bool:
    """True of an id without an epoch, or an epoch without an id."""
    has_id = getattr(request, "producer_id", NO_PRODUCER_ID) != NO_PRODUCER_ID
    return bool(has_id != (getattr(request, "producer_epoch", NO_EPOCH) != NO_EPOCH))


def _answer(header: RequestHeader, reply: Reply, error_code: ErrorCode, producer_id: int) -> None:
    shape = response_class(ApiKey.INIT_PRODUCER_ID, header.api_version)
    epoch = 0 if error_code is ErrorCode.NONE else -1
    body = build(shape, error_code=error_code, producer_id=producer_id, producer_epoch=epoch)
    reply.send(encode_reply(ApiKey.INIT_PRODUCER_ID, header.api_version, header.correlation_id, body))
