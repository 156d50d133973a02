"""This room answers DeleteRecords: what lies below an offset goes, here and at every live replica."""

import asyncio
import struct
from collections.abc import Iterable
from typing import Final

import structlog

from broker.hosted import HostedPartition
from broker.log.outcomes import StorageFailed
from broker.replicas import DataPlane
from kafkaserver.admin.asking import timeout_ms
from kafkaserver.callers import KafkaCaller, caller_of
from kafkaserver.later import Later
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import ApiKey, RequestHeader, frame_reply, is_flexible, read_request
from muster.kafkawire.fields import NO_TAGS, NOT_THROTTLED, count, text
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import after

log = structlog.get_logger(__name__)

HIGH_WATERMARK: Final = -1
"""As an offset: everything that is committed."""

_PARTITION: Final = struct.Struct(">iqh")

SLICE: Final = 50
"""Partitions, each a file to write, before the loop turns to others."""

LOOKED_AT_ONCE: Final = 200
"""Partitions whose replicas are looked at, some microseconds each, before the loop turns to others."""

_UNKNOWN: Final = -1


class _Deletion:
    """What is asked of one partition, and how far it is; `error_code` None: it waits for replicas."""

    __slots__ = ("error_code", "hosted", "low_watermark", "number", "offset", "topic")

    def __init__(self, topic: str, number: int, offset: int) -> None:
        self.topic = topic
        self.number = number
        self.offset = offset
        self.hosted: HostedPartition | None = None
        self.low_watermark = _UNKNOWN
        self.error_code: ErrorCode | None = None

    def refuse(self, error_code: ErrorCode) -> None:
        self.error_code = error_code
        self.low_watermark = _UNKNOWN


class RecordHandlers:
    """Serves DeleteRecords from one data plane."""

    def __init__(self, plane: DataPlane, later: Later) -> None:
        self._plane = plane
        self._later = later

    def delete(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Delete at the leader, answer when every live replica has, or time is over (conformance 233). Raises
        MalformedFrame.

        A partition that is named twice is answered once, by what was asked last.
        """
        request = read_request(header, frame)
        asked = {
            (topic.name, one.partition_index): _Deletion(topic.name, one.partition_index, one.offset)
            for topic in request.topics
            for one in topic.partitions
        }
        wait_ms = timeout_ms(int(request.timeout.total_seconds() * 1000))
        work = self._delete(header, list(asked.values()), wait_ms, reply)
        self._later.start(reply, work, max(1, len(asked)), len(frame))

    async def _delete(
        self, header: RequestHeader, asked: list[_Deletion], wait_ms: int, reply: Reply
    ) -> None:
        until = after(self._plane.clock(), wait_ms)
        caller = caller_of(reply)
        for number, one in enumerate(asked, start=1):
            self._delete_here(one, caller)
            if number % SLICE == 0:
                await self._later.turn()
        for one in asked:
            if one.hosted is not None and one.error_code is None:
                await self._make_durable(one, one.hosted)
        await self._await_replicas([one for one in asked if one.error_code is None], until)
        told = ((one.topic, one.number, one.low_watermark, one.error_code or ErrorCode.NONE) for one in asked)
        body = deleted_records(header.api_version, told)
        reply.send(frame_reply(header.api_key, header.api_version, header.correlation_id, body))

    def _delete_here(self, one: _Deletion, caller: KafkaCaller) -> None:
        if not caller.may_create(one.topic):
            return one.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        hosted = self._plane.led(one.topic, one.number)
        if isinstance(hosted, ErrorCode):
            return one.refuse(hosted)
        if not hosted.log.settings.deletes:
            return one.refuse(ErrorCode.POLICY_VIOLATION)
        if one.offset == HIGH_WATERMARK:
            one.offset = hosted.high_watermark
        if not 0 <= one.offset <= hosted.high_watermark:
            return one.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
        one.hosted = hosted
        before = hosted.log.start_offset
        try:
            hosted.delete_before(one.offset, self._plane.wall_clock_ms())
        except StorageFailed as error:
            self._failed(one, str(error))
        else:
            if hosted.log.start_offset != before:
                log.info(
                    "records_deleted", topic=one.topic, partition=one.number, below=one.offset,
                    by=caller.principal,
                )  # fmt: skip

    async def _make_durable(self, one: _Deletion, hosted: HostedPartition) -> None:
        """A machine crash must not bring back what was said to be deleted."""
        if not hosted.log.start_offset:
            return
        try:
            await asyncio.to_thread(hosted.log.sync_start)
        except FileNotFoundError:
            # The log was set aside meanwhile, or its start is the base of its first segment.
            return
        except OSError as error:
            self._failed(one, str(error))

    def _failed(self, one: _Deletion, reason: str) -> None:
        log.error("records_not_deleted", topic=one.topic, partition=one.number, reason=reason)
        one.refuse(ErrorCode.KAFKA_STORAGE_ERROR)

    async def _await_replicas(self, waiting: list[_Deletion], until: int) -> None:
        """Until the low watermark of each has reached its offset, or another leads it, or time is over."""
        woken = asyncio.Event()
        watched = [one.hosted for one in waiting if one.hosted is not None]
        for hosted in watched:
            hosted.awaiting_start.add(woken)
        try:
            while True:
                # Before they are looked at: whoever is woken behind its own look wakes for the next one.
                woken.clear()
                waiting = await self._unsettled(waiting)
                left_ms = until - self._plane.clock()
                if not waiting or left_ms <= 0:
                    break
                try:
                    await asyncio.wait_for(woken.wait(), left_ms / 1000)
                except TimeoutError:
                    break
        finally:
            for hosted in watched:
                hosted.awaiting_start.discard(woken)
        for one in waiting:
            one.error_code = ErrorCode.REQUEST_TIMED_OUT

    async def _unsettled(self, waiting: list[_Deletion]) -> list[_Deletion]:
        """Those of which nobody knows yet. Each fetch of a follower may wake thousands."""
        left = []
        for number, one in enumerate(waiting, start=1):
            if not self._is_settled(one):
                left.append(one)
            if number % LOOKED_AT_ONCE == 0:
                await self._later.turn()
        return left

    def _is_settled(self, one: _Deletion) -> bool:
        hosted = self._plane.led(one.topic, one.number)
        if hosted is not one.hosted:
            one.refuse(hosted if isinstance(hosted, ErrorCode) else ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return True
        assert one.hosted is not None
        one.low_watermark = one.hosted.replica.low_watermark(self._plane.live)
        if one.low_watermark >= one.offset:
            one.error_code = ErrorCode.NONE
        return one.error_code is not None


def deleted_records(version: int, asked: Iterable[tuple[str, int, int, ErrorCode]]) -> bytes:
    """The body: of each partition its topic, its number, its low watermark and its error. By hand, as of ten
    thousand partitions kio's writer holds the loop for a fifteenth of a second.
    """
    flexible = is_flexible(ApiKey.DELETE_RECORDS, version)
    tags = NO_TAGS if flexible else b""
    topics: dict[str, list[bytes]] = {}
    for topic, number, low_watermark, error in asked:
        topics.setdefault(topic, []).append(_PARTITION.pack(number, low_watermark, error) + tags)
    told = (
        b"".join((text(name, flexible), count(len(places), flexible), *places, tags))
        for name, places in topics.items()
    )
    return b"".join((NOT_THROTTLED, count(len(topics), flexible), *told, tags))
