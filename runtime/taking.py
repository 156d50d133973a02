"""This room takes leases for the lanes of one connection: those that wait together, in one go.

A node that died leaves dozens. On a loop to which thousands come at that moment each step waits for its turn,
and a step for each lease would take longer than all that the database does.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from muster.kernel.instants import Instant, elapsed_ms
from runtime.database import Link
from runtime.ports import ConnectionLost, VersionConflict
from runtime.streams import Stream

SLICE_MS = 50
"""So long the connection is kept for takes; each may have to wait for an old transaction, up to 2 s."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Take:
    """One lease that is to be taken; `taken` becomes the newest number of its journal, or None."""

    name: str
    seen_epoch: int
    old_run: str | None
    taken: "asyncio.Future[int | None]"
    seq: int | None = None
    is_tried: bool = False

    def settle(self) -> None:
        if not self.taken.done():
            self.taken.set_result(self.seq)


class Takes:
    """The leases that wait for one connection, for the run that takes them."""

    def __init__(self, stream: Stream, run: str, clock: Callable[[], Instant]) -> None:
        self._stream = stream
        self._run = run
        self._clock = clock
        self._waiting: list[_Take] = []

    async def take(self, name: str, seen_epoch: int, old_run: str | None) -> int | None:
        """Take one that was seen free, or ours, under `seen_epoch`: the newest number of its journal.

        None: somebody else was faster, or the outcome is unknown: look at the row again.
        """
        take = _Take(name, seen_epoch, old_run, asyncio.get_running_loop().create_future())
        self._waiting.append(take)
        if len(self._waiting) == 1:
            self._submit()
        return await take.taken

    def _submit(self) -> None:
        self._stream.submit(self._go, self._drop)

    async def _go(self) -> None:
        takes, self._waiting = self._waiting, []
        try:
            await self._stream.in_thread(partial(self._take_some, takes))
        except ConnectionLost as error:
            log.info("takes failed", lanes=[take.name for take in takes if take.seq is None], text=str(error))
            _settle(takes)
        except BaseException:
            _settle(takes)
            raise
        _settle([take for take in takes if take.is_tried])
        left = [take for take in takes if not take.is_tried and not take.taken.done()]
        if left:
            self._waiting = left + self._waiting
            if len(self._waiting) == len(left):
                self._submit()

    def _take_some(self, takes: Sequence[_Take], link: Link) -> None:
        """Each in a transaction of its own (leases.md section 5): nothing waits in a circle."""
        began, ended = self._clock(), {None, self._run}
        for take in takes:
            if take is not takes[0] and elapsed_ms(began, self._clock()) >= SLICE_MS:
                return
            take.is_tried = True
            try:
                if take.old_run not in ended:
                    ended.add(take.old_run)
                    # Also ends what the server's time limits do not reach; the take waits for the rest.
                    link.terminate_run(take.old_run or "")
                if link.take(take.name, take.seen_epoch, self._run):
                    take.seq = link.last_seq(take.name)
            except VersionConflict as error:
                log.info("take failed", lane=take.name, text=str(error))

    def _drop(self) -> None:
        takes, self._waiting = self._waiting, []
        _settle(takes)


def _settle(takes: Sequence[_Take]) -> None:
    for take in takes:
        take.settle()
