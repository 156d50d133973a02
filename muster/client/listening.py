"""This room tells the application which partitions come and go, one word after the other."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from muster.client.errors import ListenerFailed
from muster.client.record import TopicPartition

logger = logging.getLogger("muster.client")

Places = frozenset[TopicPartition]


class RebalanceListener:
    """What an application overrides to hear of its partitions; its methods may be plain or `async` ones.

    They are called one at a time, in the order in which things happen, while the iteration of other
    partitions goes on. An exception ends the consumer with ListenerFailed.
    """

    def on_assigned(self, partitions: Places) -> Awaitable[None] | None:
        """These are fetched from now on; nothing of them is handed out before this returns: `seek` here."""

    def on_revoked(self, partitions: Places) -> Awaitable[None] | None:
        """These go to others, or the consumer closes: a `commit` here is still accepted.

        The record in hand was finished, or a third of the session timeout has passed. After another
        quarter of it they go without waiting for this to return.
        """

    def on_lost(self, partitions: Places) -> Awaitable[None] | None:
        """Others may have had these already; what was not committed comes again."""

    def on_standby(self, partitions: Places) -> Awaitable[None] | None:
        """The whole of what this consumer stands by for, whenever it changes; nothing of what is new in it is
        handed out before this returns: `standby.seek` here.
        """


async def call(method: Callable[[Places], Any], places: Places) -> BaseException | None:
    """Call it on this loop; how another flavour of the Consumer calls listeners is its own affair.

    What it raised elsewhere is returned; what it raises here is raised.
    """
    answer = method(places)
    if inspect.isawaitable(answer):
        await answer
    return None


class Listening:
    """Calls one listener; without a listener nothing is called and nothing waits."""

    def __init__(self, listener: RebalanceListener | None) -> None:
        self.call = call
        self._listener: Final = listener
        self._turn = asyncio.Lock()
        self._calling: set[asyncio.Task[Any] | None] = set()
        self._waiting = 0

    @property
    def listens(self) -> bool:
        """Whether anybody wants to know."""
        return self._listener is not None

    @property
    def in_a_listener(self) -> bool:
        """True inside a listener's method that runs on this loop."""
        return asyncio.current_task() in self._calling

    async def assigned(self, places: Iterable[TopicPartition]) -> None:
        """Raises ListenerFailed."""
        if self._listener is not None:
            await self._tell(self._listener.on_assigned, places)

    async def revoked(self, places: Iterable[TopicPartition], is_over: Callable[[], bool]) -> None:
        """Lost, if they are others' by the time that the listener gets its turn. Raises ListenerFailed."""
        if self._listener is not None:
            await self._tell(self._listener.on_revoked, places, self._listener.on_lost, is_over)

    async def lost(self, places: Iterable[TopicPartition]) -> None:
        """Raises ListenerFailed."""
        if self._listener is not None:
            await self._tell(self._listener.on_lost, places)

    async def stands_by(self, places: Iterable[TopicPartition]) -> None:
        """Also of nothing. Raises ListenerFailed."""
        if self._listener is not None:
            await self._tell(self._listener.on_standby, places, even_of_nothing=True)

    async def settle(self, within_s: float) -> None:
        """Wait until everything was told, at most `within_s`."""
        try:
            async with asyncio.timeout(within_s):
                while self._waiting:
                    async with self._turn:
                        pass
                    await asyncio.sleep(0)
        except TimeoutError:
            logger.warning("a RebalanceListener does not return; the consumer ends without it")

    async def _tell(
        self,
        method: Callable[[Places], Any],
        places: Iterable[TopicPartition],
        too_late: Callable[[Places], Any] | None = None,
        is_late: Callable[[], bool] = lambda: False,
        *,
        even_of_nothing: bool = False,
    ) -> None:
        told = frozenset(places)
        if not told and not even_of_nothing:
            return
        task = asyncio.current_task()
        self._waiting += 1
        try:
            async with self._turn:
                if too_late is not None and is_late():
                    method = too_late
                self._calling.add(task)
                raised = await self.call(method, told)
        except asyncio.CancelledError as problem:
            if task is None or task.cancelling():
                raise
            # The listener waited for what somebody else had cancelled: a task that ends so ends unseen.
            raised = problem
        except Exception as problem:
            raised = problem
        finally:
            self._waiting -= 1
            self._calling.discard(task)
        if raised is not None:
            raise ListenerFailed(f"{method.__name__} of the listener raised {raised!r}") from raised
