"""This room lets a broker go only when others lead what they can, or when nobody can be asked in time.

replication.md section 2: it says Leaving, serves on, and stops at MayLeave.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from muster.kernel.instants import Instant, elapsed_ms
from muster.messages.link.from_broker import FromBroker, Leaving
from muster.messages.link.protocol import LEAVES

log = structlog.get_logger(__name__)

LOOK_INTERVAL_S: Final = 0.1
UNLINKED_MS: Final = 1_000
"""How long a broker that leaves waits for a link: a node that ends hands its brokers over much sooner."""


class Departure:
    """From SIGTERM to the moment at which this broker may stop. `clock` is monotonic, in ms."""

    def __init__(self, send: Callable[[FromBroker], bool], clock: Callable[[], Instant]) -> None:
        self._send = send
        self._clock = clock
        self._may_leave = asyncio.Event()
        self._is_linked = False
        self._unlinked_at: Instant | None = None
        self.wanted = False
        """True once this process was told to stop; its hellos say so."""

    def linked(self, protocol: int) -> None:
        """A link is bound; an older controller than `LEAVES` has no answer, and none is waited for."""
        self._is_linked, self._unlinked_at = True, None
        if protocol < LEAVES:
            self._may_leave.set()
        elif not self.wanted:
            self._may_leave.clear()

    def unlinked(self) -> None:
        self._is_linked, self._unlinked_at = False, self._clock()

    def allowed(self) -> None:
        """The controller said MayLeave."""
        self._may_leave.set()

    async def until_allowed(self, timeout_ms: int, duties: Sequence[asyncio.Task[Any]]) -> None:
        """Say Leaving and wait; at most `timeout_ms`, not without a link, nor when a duty has ended."""
        began = self._clock()
        self.wanted = True
        if self._is_linked and not self._may_leave.is_set():
            self._send(Leaving())
        told = asyncio.create_task(self._may_leave.wait())
        try:
            while not told.done() and self._is_worth_waiting(began, timeout_ms, duties):
                await asyncio.wait((told,), timeout=LOOK_INTERVAL_S)
        finally:
            told.cancel()
        log.info("leaving", allowed=self._may_leave.is_set(), waited_ms=elapsed_ms(began, self._clock()))

    def _is_worth_waiting(self, began: Instant, timeout_ms: int, duties: Sequence[asyncio.Task[Any]]) -> bool:
        now = self._clock()
        if elapsed_ms(began, now) >= timeout_ms or any(duty.done() for duty in duties):
            return False
        if self._is_linked:
            return True
        # Who never had a link leads nothing.
        return self._unlinked_at is not None and elapsed_ms(self._unlinked_at, now) < UNLINKED_MS
