"""This room lets answers wait for something; nobody waits longer than his connection lives."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import structlog

from kafkaserver.replies import Reply

log = structlog.get_logger(__name__)


BYTES_PER_ELEMENT: Final = 64
"""A request counts as so many elements at least as its bytes would hold: what it names may be long."""

MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
"""Of the requests of one door that wait; read, each is objects of several times its size."""


class Later:
    """The answers of one door that wait."""

    def __init__(self, most_waiting_bytes: int = MOST_WAITING_BYTES) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._most_waiting_bytes = most_waiting_bytes
        self._waiting_bytes = 0
        self._is_stopped = False
        self._rounds = asyncio.Lock()

    async def turn(self) -> None:
        """Return when the next slice of a long answer may be worded: of all of this door, one in a round of
        the loop.

        Hundreds who ask for everything at once would else have a slice each in every round.
        """
        async with self._rounds:
            await asyncio.sleep(0)

    def start(
        self, reply: Reply, work: Coroutine[Any, Any, None], elements: int = 1, size_bytes: int = 0
    ) -> None:
        """Let `work` answer `reply`; `elements` are what it asks for, and count as parked.

        `size_bytes`: of the request, where it may be large and waits for the controller. Beyond what may wait
        at this door, and at a mistake of ours, the client is hung up on.
        """
        if size_bytes and self._waiting_bytes and self._waiting_bytes + size_bytes > self._most_waiting_bytes:
            work.close()
            log.warning("kafka_too_much_waits", peer=reply.peer, waiting_bytes=self._waiting_bytes)
            reply.hang_up("too much waits at this door")
            return
        self._waiting_bytes += size_bytes
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def gone() -> None:
            task.cancel()

        reply.park(max(elements, size_bytes // BYTES_PER_ELEMENT), gone)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            self._waiting_bytes -= size_bytes
            if not done.cancelled() and done.exception() is not None:
                log.error("an answer failed", peer=reply.peer, exc_info=done.exception())
                reply.hang_up("our own mistake")
            elif reply.pieces is None and reply.is_wanted and not self._is_stopped:
                # No answer behind it could ever leave.
                log.error("an answer was given up", peer=reply.peer)
                reply.hang_up("our own mistake")

        task.add_done_callback(ended)

    def stop(self) -> None:
        """The connections are about to close."""
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()
