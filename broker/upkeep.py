"""This room keeps a broker's logs in order beside its loop: retention, fsyncs, what is to be erased."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

import structlog

from broker.core.replica_log import PartitionKey
from broker.hosted import HostedPartition
from broker.log.outcomes import StorageFailed
from broker.log.shelf import LogShelf
from muster.messages.link.condition import Disk
from muster.messages.link.from_broker import IsrProposal

log = structlog.get_logger(__name__)

AT_ONCE_S: Final = 0.01
"""For so long logs are looked at before the loop may do something else."""


ROOM_INTERVAL_S: Final = 1.0


class Partitions(Protocol):
    """The replicas on this broker."""

    def partitions(self) -> Iterator[HostedPartition]: ...

    def is_hosted(self, hosted: HostedPartition) -> bool:
        """False once it was stopped: its folder may be another one's."""

    def proposal(self, hosted: HostedPartition, *, link_ready: bool) -> IsrProposal | None: ...


class Upkeep:
    """The duties of one data plane that no request asks for. `wall_clock_ms` is the calendar."""

    def __init__(
        self,
        plane: Partitions,
        shelf: LogShelf,
        wall_clock_ms: Callable[[], int],
        ages: Callable[[], Mapping[str, int]],
        reserve_bytes: int = 0,
    ) -> None:
        """`ages`: how long a log that was set aside is kept for now, in ms, by the suffix of its folder.

        `reserve_bytes`: with less room on the disk producers are refused, so that what a broker writes for
        itself still finds some, and an operator time to make more.
        """
        self._plane = plane
        self._shelf = shelf
        self._wall_clock_ms = wall_clock_ms
        self._ages = ages
        self._reserve_bytes = reserve_bytes
        self.disk: Disk | None = None
        """As it was last looked; None: not known."""
        self._room_not_known = ""
        self._saved_marks: list[tuple[PartitionKey, int, int]] = []

    @property
    def is_short_of_room(self) -> bool:
        """Less than the reserve is left on the disk."""
        return self.disk is not None and self.disk.is_full

    async def watch_room(self) -> None:
        """Look again and again how much room is left; ends with its task."""
        while True:
            await self.look_for_room()
            await asyncio.sleep(ROOM_INTERVAL_S)

    async def look_for_room(self) -> None:
        """In a thread: the file system may hang."""
        was_short = self.is_short_of_room
        try:
            told = await asyncio.to_thread(os.statvfs, self._shelf.folder)
        except OSError as error:
            if str(error) != self._room_not_known:
                # Once: it is looked again and again.
                log.error("room_not_known", folder=str(self._shelf.folder), reason=str(error))
            self.disk, self._room_not_known = None, str(error)
            return
        self._room_not_known = ""
        usable_bytes, total_bytes = told.f_frsize * told.f_bavail, told.f_frsize * told.f_blocks
        self.disk = Disk(total_bytes, usable_bytes, self._reserve_bytes)
        if self.is_short_of_room != was_short:
            log.warning("room_is_back" if was_short else "disk_nearly_full", usable_bytes=usable_bytes)

    async def checkpoint(self) -> None:
        """Save high watermarks and recovery points, where one is another. Raises StorageFailed.

        In a thread: while the disk is busy with records it may take a tenth of a second.
        """
        hosted = tuple(self._plane.partitions())
        marks = [(one.key, one.high_watermark, one.log.recovery_point) for one in hosted]
        if marks == self._saved_marks and not self._shelf.given_up.has_news:
            return
        begun = self._shelf.begin_checkpoint({key: high_watermark for key, high_watermark, _ in marks})
        try:
            await asyncio.to_thread(begun.write)
        except StorageFailed:
            begun.settle()
            raise
        if begun.settle():
            self._saved_marks = marks

    async def propose(
        self, may_propose: Callable[[], bool], send: Callable[[list[IsrProposal]], None]
    ) -> None:
        """Send every change of an ISR to ask the controller for now.

        Some partitions at a time: to look at 26,000 held the loop for a tenth of a second, every 15 s.
        """
        loop = asyncio.get_running_loop()
        asked: list[IsrProposal] = []
        until = loop.time() + AT_ONCE_S
        for hosted in self._plane.partitions():
            if self._plane.is_hosted(hosted):
                proposal = self._plane.proposal(hosted, link_ready=may_propose())
                asked += () if proposal is None else (proposal,)
            if loop.time() > until:
                send(asked)
                asked = []
                await asyncio.sleep(0)
                until = loop.time() + AT_ONCE_S
        send(asked)

    async def apply_retention(self) -> int:
        """Delete segments that are old or too many; returns how many."""
        loop = asyncio.get_running_loop()
        deleted, until = 0, loop.time() + AT_ONCE_S
        for hosted in self._plane.partitions():
            if self._plane.is_hosted(hosted):
                deleted += self._apply_retention_to(hosted)
            if loop.time() > until:
                await asyncio.sleep(0)
                until = loop.time() + AT_ONCE_S
        return deleted

    def _apply_retention_to(self, hosted: HostedPartition) -> int:
        now = self._wall_clock_ms()
        try:
            deleted = hosted.apply_retention(now)
            hosted.log.producers.forget_silent(now, hosted.log.settings.producer_id_expiration_ms)
        except StorageFailed as error:
            log.error("retention_failed", folder=hosted.log.folder.name, reason=str(error))
            return 0
        return deleted

    def state_ends(self, ends: Mapping[PartitionKey, int]) -> None:
        """These logs are about to be cut, perhaps thousands: what files say too much of them is stated once.

        What cannot be written then each cut states for itself, and fails alone.
        """
        try:
            self._shelf.state_ends(ends)
        except StorageFailed as error:
            log.error("ends_not_stated", logs=len(ends), reason=str(error))

    async def erase_old(self) -> int:
        """Erase, in a thread, logs that were set aside longer ago than their kind is kept."""
        return await asyncio.to_thread(self._shelf.erase_old, self._wall_clock_ms(), self._ages())

    async def flush_full_segments(self) -> None:
        """Make segments that are written no more durable, in a thread: an fsync may take seconds."""
        for hosted in self._plane.partitions():
            for segment in hosted.log.full_segments():
                if not self._plane.is_hosted(hosted) or segment not in hosted.log.full_segments():
                    # Deleted during the fsync before: to open it now would make it anew, and empty.
                    continue
                cuts = hosted.log.cuts
                try:
                    file = segment.file
                except OSError as error:
                    # No descriptor is free: nothing is lost by that, and the next round tries again.
                    log.warning("not_flushed_yet", folder=hosted.log.folder.name, reason=str(error))
                    break
                try:
                    await asyncio.to_thread(os.fsync, file)
                except OSError as error:
                    # The system tells a loss once: another fsync would succeed, and what is gone stays gone.
                    hosted.log.fail(f"not flushed: {error}")
                    break
                hosted.log.flushed_through(segment, cuts)
