"""This room asks a node's database what clients ask: one question of theirs is with it at a time.

The others wait with whoever asked, and go with him: a thread's queue forgets nobody, and while the database
stands still clients who come again and again would fill it. What is the same for all is read once for all.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from runtime.ports import Connection, NodeContext

Result = TypeVar("Result")

_NOT_READ: Final[Any] = None


class InTurn:
    """Questions that are one behind the other."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._turn = asyncio.Lock()

    async def query(self, function: Callable[[Connection], Result]) -> Result:
        """As `NodeContext.query`. Raises ConnectionLost."""
        await self._turn.acquire()
        asked = asyncio.ensure_future(self._node.query(function))
        # Not as soon as nobody waits for it: it is with the thread until then.
        asked.add_done_callback(self._over)
        return await asyncio.shield(asked)

    def _over(self, asked: "asyncio.Future[Any]") -> None:
        self._turn.release()
        _retrieve(asked)


class SharedRead(Generic[Result]):
    """What is read once for all who ask meanwhile: thousands who ask at once are told by two reads."""

    def __init__(self, node: NodeContext, function: Callable[[Connection], Result]) -> None:
        self._node = node
        self._function = function
        self._asked = self._answered = 0
        self._reading: asyncio.Future[None] | None = None
        self._found: Result = _NOT_READ

    async def now(self) -> Result:
        """As a read says that begins from now on. Raises ConnectionLost."""
        self._asked = mine = self._asked + 1
        while self._answered < mine:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.ensure_future(self._read(self._asked))
                self._reading.add_done_callback(_retrieve)
            await asyncio.shield(self._reading)
        return self._found

    async def _read(self, asked: int) -> None:
        self._found = await self._node.query(self._function)
        self._answered = asked


def _retrieve(asked: "asyncio.Future[Any]") -> None:
    """Whoever asked may be gone: nobody else hears what went wrong."""
    if not asked.cancelled():
        asked.exception()
