"""This room compacts the logs of a broker beside its loop: one at a time, the dirtiest first."""

import asyncio
import errno
from collections.abc import Callable
from typing import Final

import structlog

from broker import compactor
from broker.hosted import HostedPartition
from broker.log.cleaning import Dirt
from broker.log.compaction import Task
from broker.log.outcomes import StorageFailed
from broker.log.partition_log import PartitionLog
from broker.upkeep import Partitions

_FOR_ALL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE)
"""Whoever comes next hears the same: nothing is opened, or written, for anybody."""

log = structlog.get_logger(__name__)


class Cleaner:
    """`wall_clock_ms` is the calendar."""

    def __init__(self, plane: Partitions, wall_clock_ms: Callable[[], int]) -> None:
        self._plane = plane
        self._wall_clock_ms = wall_clock_ms
        self._refused: set[PartitionLog] = set()
        """A person looks at them: `cannot_be_compacted` in the log of the process says why."""
        self._passed_over: set[PartitionLog] = set()
        """In this round: the disk, or the system, refused something, which `not_compacted` says."""
        self._passed_over_before: set[PartitionLog] = set()
        """In the round before this one."""

    @property
    def given_up(self) -> int:
        """Logs that could not be compacted: not at all in this process, or not when it was last tried."""
        return len(self._refused | self._passed_over | self._passed_over_before)

    async def clean_dirty(self) -> int:
        """Compact one log after the other until none is dirty enough; returns how many passes there were."""
        passes = 0
        self._passed_over_before, self._passed_over = self._passed_over, set()
        while (found := await self._dirtiest()) is not None:
            hosted, dirt = found
            try:
                if not await self._clean(hosted, dirt):
                    break
            except (OSError, StorageFailed) as error:
                if self._pass_over(hosted, error):
                    break
                continue
            except Exception as error:
                # Also at a mistake of ours: it would end every broker that holds this log, again and again.
                self._refused.add(hosted.log)
                log.exception("cannot_be_compacted", folder=hosted.log.folder.name, reason=str(error))
            passes += 1
        self._passed_over_before.clear()
        return passes

    def _pass_over(self, hosted: HostedPartition, error: Exception) -> bool:
        """It is tried again in the next round, and holds up no other: its sectors may stay as they are. True
        if this round is over for all of them.
        """
        self._passed_over.add(hosted.log)
        log.error("not_compacted", folder=hosted.log.folder.name, reason=str(error))
        return any(getattr(one, "errno", None) in _FOR_ALL for one in (error, error.__cause__))

    async def _dirtiest(self) -> tuple[HostedPartition, Dirt] | None:
        self._refused.intersection_update({hosted.log for hosted in self._plane.partitions()})
        for hosted in self._plane.partitions():
            if self._may_be_compacted(hosted.log) and hosted.log.cleaning.passes is None:
                try:
                    await asyncio.to_thread(hosted.log.cleaning.load)
                except OSError as error:
                    if self._pass_over(hosted, error):
                        return None
        best: tuple[HostedPartition, Dirt] | None = None
        now = self._wall_clock_ms()
        # From here to the pass nobody else has the loop: what is found is still there then.
        for hosted in self._plane.partitions():
            one = hosted.log
            if not self._may_be_compacted(one) or one.cleaning.passes is None:
                continue
            try:
                dirt = one.cleaning.dirt(one.settings, hosted.high_watermark, now)
            except OSError as error:
                if self._pass_over(hosted, error):
                    return None
                continue
            is_wanted = dirt.is_due or dirt.ratio >= one.settings.min_cleanable_dirty_ratio
            if dirt.dirty_bytes and is_wanted and (best is None or dirt.ratio > best[1].ratio):
                best = hosted, dirt
        return best

    def _may_be_compacted(self, one: PartitionLog) -> bool:
        is_out = one in self._refused or one in self._passed_over
        return one.settings.compacts and not one.failure and not is_out

    async def _clean(self, hosted: HostedPartition, dirt: Dirt) -> bool:
        """One pass over one log; False if it was cut meanwhile."""
        one, now = hosted.log, self._wall_clock_ms()
        passes = one.cleaning.passes
        assert passes is not None
        task = Task(
            one.cleaning.sources(dirt),
            passes.clean_to,
            passes.old_to(now, one.settings.delete_retention_ms),
            one.settings.segment_bytes,
            {
                producer_id: state.batches[-1].base_offset
                for producer_id, state in one.producers.states()
                if state.batches
            },
        )
        cuts, started = one.cuts, asyncio.get_running_loop().time()
        before = after = 0
        work = compactor.begin(task)
        try:
            looked = await asyncio.to_thread(work.look)
            while (cleaned := await asyncio.to_thread(work.next_file)) is not None:
                if not self._plane.is_hosted(hosted) or one.cuts != cuts or not one.swap_in(cleaned):
                    await asyncio.to_thread(cleaned.path.unlink, missing_ok=True)
                    return False
                before, after = before + cleaned.before_bytes, after + cleaned.size_bytes
        finally:
            await work.end()
        if self._plane.is_hosted(hosted) and one.cuts == cuts:
            # Only now is what it superseded gone: until then a reader may have met the older value.
            passes.note(looked.end_offset, self._wall_clock_ms(), one.settings.delete_retention_ms)
        log.info(
            "compacted",
            folder=one.folder.name,
            clean_to=looked.end_offset,
            keys=looked.keys,
            unreadable=looked.unreadable,
            bytes_before=before,
            bytes_after=after,
            seconds=round(asyncio.get_running_loop().time() - started, 3),
        )
        return True
