"""This room keeps one of a kind for each event loop, which all on it share; forgotten with its loop."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

One = TypeVar("One")


class OfLoops(Generic[One]):
    """Made by `make` when a loop first asks."""

    def __init__(self, make: Callable[[asyncio.AbstractEventLoop], One]) -> None:
        self._make = make
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, One] = WeakKeyDictionary()

    def of(self, loop: asyncio.AbstractEventLoop) -> One:
        """That of this loop."""
        found = self._of_loops.get(loop)
        if found is None:
            found = self._of_loops[loop] = self._make(loop)
        return found
