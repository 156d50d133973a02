"""This room asks the core for somebody who is no member, and waits for the answer: tools that delete."""

import asyncio
from collections.abc import Callable
from itertools import count

from coordinator.callers import Callers
from coordinator.core.events import ConnectionId, DeletionAnswer, Waiter
from muster.kernel.error_codes import ErrorCode


class InnerSeat:
    """A caller of one shard (`coordinator.callers.Caller`), there as long as somebody waits."""

    closing = False

    def __init__(self, callers: Callers, shard: int) -> None:
        self.id = ConnectionId(f"inner/{shard}")
        self._callers = callers
        self._shard = shard
        self._numbers = count(1)
        self._waiting: dict[Waiter, asyncio.Future[DeletionAnswer]] = {}

    async def ask(self, send: Callable[[ConnectionId, Waiter], None]) -> DeletionAnswer:
        """Hand in what is asked by `send`, and wait; NOT_COORDINATOR when the shard is given up before."""
        waiter = Waiter(next(self._numbers))
        answered: asyncio.Future[DeletionAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = answered
        self._callers.add(self, self._shard)
        try:
            send(self.id, waiter)
            return await answered
        finally:
            self._waiting.pop(waiter, None)
            if not self._waiting:
                self._callers.remove(self, self._shard)

    def is_waited_at(self, waiter: Waiter) -> bool:
        """False once its tool hung up: of what it asked nothing is done any more."""
        return waiter in self._waiting

    def say(self, message: DeletionAnswer) -> None:
        """The answer for one who waits (Caller.say)."""
        answered = self._waiting.get(message.waiter)
        if answered is not None and not answered.done():
            answered.set_result(message)

    def hang_up(self, error: ErrorCode, text: str) -> None:
        """All who wait hear the error (Caller.hang_up)."""
        for waiter in list(self._waiting):
            self.say(DeletionAnswer(waiter, error))
