"""This room lets a thread for each stream hand records to a handler, for the blocking flavour."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from muster.client.conversation import Conversation
from muster.client.processing import Hand, the_hand
from muster.client.record import Record


class Readers:
    """The threads of one `run`: `next_record` waits for the next of a hand, `call` asks the loop."""

    def __init__(
        self,
        conversation: Conversation,
        handler: Callable[[Record], None],
        next_record: Callable[[Hand], Record | None],
        call: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._processing = conversation.processing
        self._ownership = conversation.ownership
        self._handler = handler
        self._next_record = next_record
        self._call = call
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: dict[Hand, threading.Thread] = {}
        self._stopped = False
        self._problem: BaseException | None = None

    def run(self) -> None:
        """Until the consumer is closed, or a handler raises; that is raised when all threads have ended."""
        try:
            with self._processing.work():
                self._call(self._watch())
        finally:
            # Also after KeyboardInterrupt: nobody begins another record.
            self._stopped = True
            self._on_the_loop(self._stop_waiting)
            for thread in list(self._threads.values()):
                thread.join()
            self._on_the_loop(self._dismiss)
        if self._problem is not None:
            raise self._problem

    async def _watch(self) -> None:
        self._loop = asyncio.get_running_loop()
        news = self._ownership.streams_changed
        self._processing.set_main_aside()
        while not self._processing.closed and not self._stopped:
            for stream in self._ownership.streams - {hand.stream for hand in self._threads}:
                hand = self._processing.open_hand(stream)
                name = f"stream {stream.topic or 'of patterns'} {stream.thread}"
                thread = threading.Thread(target=self._read, args=(hand,), name=name, daemon=True)
                self._threads[hand] = thread
                thread.start()
            news.clear()
            await news.wait()

    def _read(self, hand: Hand) -> None:
        the_hand.set(hand)
        try:
            while not self._stopped and (record := self._next_record(hand)) is not None:
                self._handler(record)
            with self._processing.fetching.guard:
                hand.finish()
        except BaseException as problem:
            self._problem = self._problem or problem
            self._stopped = True
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._ownership.streams_changed.set)

    def _on_the_loop(self, action: Callable[[], None]) -> None:
        async def act() -> None:
            action()

        # Without a loop the consumer is over, and nobody else looks at its hands.
        with suppress(RuntimeError, CancelledError):
            self._call(act())

    def _stop_waiting(self) -> None:
        for hand in self._threads:
            hand.stop()

    def _dismiss(self) -> None:
        for hand in self._threads:
            self._processing.dismiss(hand)
