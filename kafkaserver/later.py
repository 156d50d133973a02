"""This room lets answers wait for something; nobody waits longer than his connection lives."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from kafkaserver.replies import Reply

log = structlog.get_logger(__name__)


class Later:
    """The answers of one door that wait."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, reply: Reply, work: Coroutine[Any, Any, None], elements: int = 1) -> None:
        """Let `work` answer `reply`; `elements` are what it asks for, and count as parked.

        A mistake of ours hangs up.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def gone() -> None:
            task.cancel()

        reply.park(elements, gone)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and done.exception() is not None:
                log.error("an answer failed", peer=reply.peer, exc_info=done.exception())
                reply.hang_up("our own mistake")

        task.add_done_callback(ended)

    def stop(self) -> None:
        """The connections are about to close."""
        for task in self._tasks:
            task.cancel()
