"""This room wakes whoever waits once a loop turn, however often they were called in it."""

import asyncio
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)


class WakeUps:
    """Calls that are due at the end of this loop turn, in the order they were asked for."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []

    def soon(self, call: Callable[[], None]) -> None:
        """Run `call` after everything that this loop turn still has to do."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self._run)
        self._due.append(call)

    def _run(self) -> None:
        due, self._due = self._due, []
        for call in due:
            try:
                call()
            except Exception:
                # Our own mistake with one sleeper must not leave the others asleep.
                log.exception("wake_up_failed")
