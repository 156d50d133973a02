"""This room holds back the cut of a follower's log until its producers are read again, beside the loop."""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import structlog

from broker.core.replica import FetchPosition
from broker.core.replica_log import PartitionKey
from broker.fetch_session import FetchedAnswer
from broker.log import cutting
from broker.log.cutting import Replay
from broker.replicas import DataPlane

log = structlog.get_logger(__name__)


class _Held(NamedTuple):
    asked: FetchPosition
    replay: Replay
    offset: int
    """Where the log is to be cut."""


class _Waiting(NamedTuple):
    records: int
    number: int
    key: PartitionKey
    answer: FetchedAnswer
    replay: Replay


class LongCuts:
    """Those that one peer's answers demand; one is read at a time, as it takes the interpreter from the loop.

    The shortest first: who has little to read is back in its ISR before one that takes a minute. `cut` is
    called when it is read.
    """

    def __init__(self, plane: DataPlane, cut: Callable[[FetchedAnswer, Replay], None]) -> None:
        self._plane = plane
        self._cut = cut
        self._held: dict[PartitionKey, _Held] = {}
        self._waiting: list[_Waiting] = []
        self._numbers = count()
        self._reading: asyncio.Task[None] | None = None
        self._at_once = 0

    def expect(self, cuts: int) -> None:
        """One answer cuts so many logs: what the loop may read at once is for all of them together."""
        self._at_once = cutting.READ_AT_ONCE // max(cuts, 1)

    def begin(self, answer: FetchedAnswer) -> bool:
        """False: the answer demands no cut for which much is to be read. Raises StorageFailed."""
        key = PartitionKey(*answer.key)
        hosted = self._plane.hosted(*key)
        if hosted is None or answer.diverging is None or answer.error:
            return False
        offset = hosted.replica.parts_at(answer.asked, answer.diverging)
        replay = hosted.log.replay(offset, self._at_once) if offset is not None else None
        if offset is None or replay is None:
            return False
        self.drop(key)
        self._held[key] = _Held(answer.asked, replay, offset)
        # Records would be a view into the frame; beside a place where logs part there are none.
        answer = answer._replace(records=None)
        heappush(self._waiting, _Waiting(replay.records, next(self._numbers), key, answer, replay))
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_all())
        return True

    def holds(self, key: PartitionKey, position: FetchPosition) -> bool:
        """Whether the cut of this partition, as it is fetched from `position`, is to come still."""
        held = self._held.get(key)
        return held is not None and held.asked == position

    def drop(self, key: PartitionKey) -> None:
        """It is followed no more as it was."""
        if held := self._held.pop(key, None):
            held.replay.end()

    def stop(self) -> None:
        """Nothing is cut any more."""
        for key in tuple(self._held):
            self.drop(key)
        self._waiting.clear()
        if self._reading is not None:
            self._reading.cancel()

    async def _read_all(self) -> None:
        while self._waiting:
            _, _, key, answer, replay = heappop(self._waiting)
            if self._is_held(key, replay):
                await self._read(key, replay)
            if self._is_held(key, replay):
                if len(self._held) > 1:
                    # As before the first of them: a checkpoint has stated since what they still count.
                    self._plane.upkeep.state_ends({one: held.offset for one, held in self._held.items()})
                del self._held[key]
                self._cut(answer, replay)

    def _is_held(self, key: PartitionKey, replay: Replay) -> bool:
        held = self._held.get(key)
        return held is not None and held.replay is replay

    async def _read(self, key: PartitionKey, replay: Replay) -> None:
        try:
            await asyncio.to_thread(replay.read, self._plane.wall_clock_ms())
        except Exception:
            # Held for ever it would never be followed again: the cut reads for itself.
            log.exception("what producers stored was not read", partition=str(key))
