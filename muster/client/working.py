"""This room lets one handler for each stream run beside the others, and keeps the order in each partition."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from muster.client.ownership import Ownership
from muster.client.processing import Hand, Processing, the_hand
from muster.client.record import Record

Handler = Callable[[Record], Awaitable[None] | None]


async def work(processing: Processing, ownership: Ownership, handler: Handler) -> None:
    """Call `handler` with each record, one at a time in each stream, until the consumer is over.

    Raises what a handler raises; the others are cancelled then, and what was not finished comes again. Raises
    RuntimeError for one that ends as cancelled though nobody cancelled it, as by waiting for a task that was.
    """

    async def read(hand: Hand) -> None:
        the_hand.set(hand)
        task = asyncio.current_task()
        try:
            while (record := await hand.next_record()) is not None:
                answer = handler(record)
                if inspect.isawaitable(answer):
                    await answer
        except asyncio.CancelledError as problem:
            if task is None or task.cancelling():
                raise
            # A task that ends so ends unseen, and its stream would not be read any more.
            raise RuntimeError("a handler ended as cancelled, and nobody had cancelled it") from problem
        finally:
            processing.dismiss(hand)

    try:
        with processing.work():
            await _work(processing, ownership, read)
    except BaseExceptionGroup as problems:
        raise first_of(problems) from None


async def _work(
    processing: Processing, ownership: Ownership, read: Callable[[Hand], Coroutine[Any, Any, None]]
) -> None:
    processing.set_main_aside()
    async with asyncio.TaskGroup() as tasks:
        while not processing.closed:
            for stream in ownership.streams - {hand.stream for hand in processing.hands}:
                name = f"stream {stream.topic or 'of patterns'} {stream.thread}"
                tasks.create_task(read(processing.open_hand(stream)), name=name)
            ownership.streams_changed.clear()
            await ownership.streams_changed.wait()


def first_of(problems: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first of them that is no group."""
    first = problems.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first
