"""This room holds back the cut of a follower's log until its producers are read again, beside the loop."""

import asyncio
from collections.abc import Callable
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
    task: asyncio.Task[None]


class LongCuts:
    """Those that one peer's answers demand; one is read at a time, as it takes the interpreter from the loop.

    `cut` is called when it is read.
    """

    def __init__(self, plane: DataPlane, cut: Callable[[FetchedAnswer, Replay], None]) -> None:
        self._plane = plane
        self._cut = cut
        self._held: dict[PartitionKey, _Held] = {}
        self._reading = asyncio.Lock()
        self._at_once = 0

    def expect(self, count: int) -> None:
        """One answer cuts so many logs: what the loop may read at once is for all of them together."""
        self._at_once = cutting.READ_AT_ONCE // max(count, 1)

    def begin(self, answer: FetchedAnswer) -> bool:
        """False: the answer demands no cut for which much is to be read. Raises StorageFailed."""
        key = PartitionKey(*answer.key)
        hosted = self._plane.hosted(*key)
        if hosted is None or answer.diverging is None or answer.error:
            return False
        offset = hosted.replica.parts_at(answer.asked, answer.diverging)
        replay = hosted.log.replay(offset, self._at_once) if offset is not None else None
        if replay is None:
            return False
        self.drop(key)
        # Records would be a view into the frame; beside a place where logs part there are none.
        task = asyncio.create_task(self._read(key, answer._replace(records=None), replay))
        self._held[key] = _Held(answer.asked, replay, task)
        return True

    def holds(self, key: PartitionKey, position: FetchPosition) -> bool:
        """Whether the cut of this partition, as it is fetched from `position`, is to come still."""
        held = self._held.get(key)
        return held is not None and held.asked == position

    def drop(self, key: PartitionKey) -> None:
        """It is followed no more as it was."""
        if held := self._held.pop(key, None):
            held.replay.end()
            held.task.cancel()

    def stop(self) -> None:
        """Nothing is cut any more."""
        for key in tuple(self._held):
            self.drop(key)

    async def _read(self, key: PartitionKey, answer: FetchedAnswer, replay: Replay) -> None:
        try:
            async with self._reading:
                await asyncio.to_thread(replay.read, self._plane.wall_clock_ms())
        except Exception:
            # Held for ever it would never be followed again: the cut reads for itself.
            log.exception("what producers stored was not read", partition=str(key))
        del self._held[key]
        self._cut(answer, replay)
