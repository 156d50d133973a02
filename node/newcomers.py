"""This room looks in the database for a token that this node does not know, before its holder is refused.

A token may be newer than the map of them, which is read when somebody says so, and else every ten seconds.
What a stranger shows costs a look by an index, shared with all who ask meanwhile; only what is found has the
map read.
"""

import asyncio
from collections.abc import Awaitable, Callable

from kafkaserver.newcomers import Bounds, is_name

LOOKED_FOR_MAX = 64
"""So many names in one look; whoever comes beyond them is refused by what is known."""


class Newcomers:
    """Those of one node; `is_new` asks the database whether some name has a token that is not known, `read`
    reads them all, and `known` is what was read last.
    """

    def __init__(
        self,
        is_new: Callable[[frozenset[str]], Awaitable[bool]],
        read: Callable[[], Awaitable[None]],
        known: Callable[[], object],
    ) -> None:
        self._is_new = is_new
        self._read = read
        self._known = known
        self._bounds = Bounds()
        self._names: set[str] = set()
        self._next: asyncio.Task[bool] | None = None
        self._looking = asyncio.Lock()

    async def find(self, name: str, address: str) -> bool:
        """Whether all tokens were read again since: because this one, or another that was asked for, is new,
        or because somebody had said so, and then it is new no more when the look comes to it.

        `name` is a token's public part, or its name.
        """
        before = self._known()
        return await self._is_found(name, address) or self._known() is not before

    async def _is_found(self, name: str, address: str) -> bool:
        if not is_name(name):
            return False
        if self._next is not None and name in self._names:
            # It costs no look: fifty consumers may come together with the token that was made for them.
            return await asyncio.shield(self._next)
        if not self._bounds.allow(address):
            return False
        if len(self._names) >= LOOKED_FOR_MAX:
            return False
        self._names.add(name)
        if self._next is None:
            self._next = asyncio.create_task(self._look())
        return await asyncio.shield(self._next)

    async def _look(self) -> bool:
        # Whoever asks while a look is under way may have been let in since it began: another one is for it.
        async with self._looking:
            names, self._names, self._next = frozenset(self._names), set(), None
            if not await self._is_new(names):
                return False
            await self._read()
            return True
