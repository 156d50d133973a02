"""This room answers ListOffsets and OffsetForLeaderEpoch from the logs that are led here."""

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from broker.core.leader_epochs import offset_for_leader_epoch
from broker.hosted import HostedPartition
from broker.log.outcomes import StorageFailed, TimestampedOffset
from broker.replicas import DataPlane
from kafkaserver.callers import KafkaCaller, caller_of
from kafkaserver.later import Later
from kafkaserver.replies import Reply
from muster.kafkawire import batches, fields
from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    frame_reply,
    is_flexible,
    read_request,
)
from muster.kafkawire.errors import CorruptBatch, UnsupportedCompression
from muster.kafkawire.record_frames import frames, records_of
from muster.kernel.error_codes import ErrorCode

LATEST: Final = -1
EARLIEST: Final = -2
LARGEST_TIME: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
_SPECIAL_SINCE: Final = {LATEST: 1, EARLIEST: 1, LARGEST_TIME: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""The version of ListOffsets that knows each time that is none; nothing of a log is tiered here."""
OPENED_BYTES: Final = 64 * 1024 * 1024
"""To so many bytes a batch is decompressed to find the record in it."""

LOOK_AT_ONCE_S: Final = 0.01
"""For so long offsets are looked up before the loop may do something else."""

AT_ONCE: Final = 500
"""Partitions that are answered in one go if none of them is looked up by time."""

_UNKNOWN: Final = -1
_NOBODY_LED: Final = 0
"""The leader epoch in which a partition is made."""
_THROTTLED_SINCE: Final = 2
_EPOCHS_SINCE: Final = 4
_OFFSET_NOT_AVAILABLE_SINCE: Final = 5
_PARTITION: Final = struct.Struct(">ihqq")
_EPOCH: Final = struct.Struct(">i")
_EPOCH_END: Final = struct.Struct(">hiiq")


class _Refused(Exception):
    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(error_code.name)
        self.error_code = error_code


class OffsetHandlers:
    """Serves questions about offsets from one data plane."""

    def __init__(self, plane: DataPlane, later: Later) -> None:
        self._plane = plane
        self._later = later

    # -- ListOffsets

    def list_offsets(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Earliest, latest, the youngest, or the first at a time (conformance 224). Raises MalformedFrame.

        A search by time reads a log, so many of them let the loop do something else in between; the one batch
        that holds what is searched is opened beside the loop.
        """
        request = read_request(header, frame)
        listed = _Listed(self._plane, header, request, caller_of(reply))
        if not listed.searches and listed.size <= AT_ONCE:
            for _ in listed.steps():
                pass
            reply.send(listed.answered())
            return
        self._later.start(reply, self._search(listed, reply), listed.size)

    async def _search(self, listed: "_Listed | _EpochEnds", reply: Reply) -> None:
        loop = asyncio.get_running_loop()
        if listed.size > AT_ONCE:
            await self._later.turn()
        until = loop.time() + LOOK_AT_ONCE_S
        for found in listed.steps():
            if found is not None:
                await asyncio.to_thread(found.look_into)
            if loop.time() > until:
                await self._later.turn()
                until = loop.time() + LOOK_AT_ONCE_S
        reply.send(listed.answered())

    # -- OffsetForLeaderEpoch

    def offset_for_leader_epoch(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Where an epoch ends (conformance 230). Raises MalformedFrame, FrameTooLarge.

        When leaders have moved a consumer asks at once about all that it reads at one broker.
        """
        ends = _EpochEnds(self._plane, header, read_request(header, frame), caller_of(reply))
        if ends.size <= AT_ONCE:
            for _ in ends.steps():
                pass
            reply.send(ends.answered())
        else:
            self._later.start(reply, self._search(ends, reply), ends.size)


class _EpochEnds:
    """One OffsetForLeaderEpoch: its answer as far as it is written; kio's writer takes ten times as long."""

    def __init__(self, plane: DataPlane, header: RequestHeader, request: Any, caller: KafkaCaller) -> None:
        self._plane = plane
        self._header = header
        self._topics = request.topics
        self._caller = caller
        self._told: list[bytes] = []
        self.size = sum(len(topic.partitions) for topic in request.topics)
        """How many partitions are asked about."""

    def steps(self) -> Iterator[None]:
        """Tell of one partition after the other, in the order of the request."""
        flexible = is_flexible(ApiKey.OFFSET_FOR_LEADER_EPOCH, self._header.api_version)
        end = fields.NO_TAGS if flexible else b""
        told = self._told
        told += fields.NOT_THROTTLED, fields.count(len(self._topics), flexible)
        for topic in self._topics:
            may_describe = self._caller.may_describe(topic.topic)
            told += fields.text(topic.topic, flexible), fields.count(len(topic.partitions), flexible)
            for asked in topic.partitions:
                told += self._end_of(topic.topic, asked, may_describe), end
                yield None
            told.append(end)
        told.append(end)

    def answered(self) -> bytes:
        """The whole answer, when every step is taken."""
        header = self._header
        body = b"".join(self._told)
        return frame_reply(header.api_key, header.api_version, header.correlation_id, body)

    def _end_of(self, topic: str, asked: Any, may_describe: bool) -> bytes:
        number = asked.partition
        if not may_describe:
            return _EPOCH_END.pack(ErrorCode.TOPIC_AUTHORIZATION_FAILED, number, _UNKNOWN, _UNKNOWN)
        hosted = self._plane.led(topic, number, _as_stated(asked.current_leader_epoch))
        if isinstance(hosted, ErrorCode):
            return _EPOCH_END.pack(hosted, number, _UNKNOWN, _UNKNOWN)
        epoch, end_offset = offset_for_leader_epoch(
            hosted.log.epochs, asked.leader_epoch, hosted.replica.leader_epoch, hosted.log.end_offset
        )
        return _EPOCH_END.pack(ErrorCode.NONE, number, epoch, end_offset)


class _Listed:
    """One ListOffsets: what is asked, and what has been found so far.

    A partition that is named twice is refused, as Kafka does: it is answered once.
    """

    def __init__(self, plane: DataPlane, header: RequestHeader, request: Any, caller: KafkaCaller) -> None:
        self._plane = plane
        self._caller = caller
        self._header = header
        self._flexible = is_flexible(ApiKey.LIST_OFFSETS, header.api_version)
        self._end = b"\0" if self._flexible else b""
        self._asked: dict[str, dict[int, Any]] = {}
        self._twice: set[tuple[str, int]] = set()
        self._found: list[bytes] = []
        """The answers, as they are written, in the order of asking."""
        self.searches = 0
        """How many partitions are looked up by time."""
        for topic in request.topics:
            partitions = self._asked.setdefault(topic.name, {})
            for asked in topic.partitions:
                index = asked.partition_index
                if index in partitions:
                    self._twice.add((topic.name, index))
                else:
                    self.searches += asked.timestamp >= 0 or asked.timestamp == LARGEST_TIME
                partitions[index] = asked

    def steps(self) -> Iterator["_Batch | None"]:
        """Look up one partition after the other; a batch is to be looked into before the next step."""
        for topic, partitions in self._asked.items():
            for index, asked in partitions.items():
                found = self._looked_up(topic, asked)
                if found.batch is not None:
                    yield found.batch
                    if found.batch.go_on_from is not None:
                        rest = self._looked_up(topic, asked, found.batch.go_on_from)
                        if rest.batch is not None:
                            yield rest.batch
                        if not found.batch.holds_more_than(rest):
                            found = rest
                self._found.append(self._written(index, found))
                yield None

    @property
    def size(self) -> int:
        """How many partitions are asked about."""
        return sum(map(len, self._asked.values()))

    def answered(self) -> bytes:
        """The whole answer, when every step is taken; kio's writer takes ten times as long."""
        flexible, found = self._flexible, iter(self._found)
        body = [b"" if self._header.api_version < _THROTTLED_SINCE else bytes(4)]
        body.append(fields.count(len(self._asked), flexible))
        for topic, partitions in self._asked.items():
            body += (fields.text(topic, flexible), fields.count(len(partitions), flexible))
            body += islice(found, len(partitions))
            body.append(self._end)
        body.append(self._end)
        header = self._header
        return frame_reply(ApiKey.LIST_OFFSETS, header.api_version, header.correlation_id, b"".join(body))

    def _looked_up(self, topic: str, asked: Any, from_offset: int = 0) -> "_Found":
        try:
            if (topic, asked.partition_index) in self._twice:
                raise _Refused(ErrorCode.INVALID_REQUEST)
            if not self._caller.may_describe(topic):
                raise _Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            since = _SPECIAL_SINCE.get(asked.timestamp)
            if asked.timestamp < 0 and (since is None or self._header.api_version < since):
                raise _Refused(ErrorCode.UNSUPPORTED_VERSION)
            epoch_stated = getattr(asked, "current_leader_epoch", _UNKNOWN)
            hosted = self._plane.led(topic, asked.partition_index, _as_stated(epoch_stated))
            if isinstance(hosted, ErrorCode):
                raise _Refused(hosted)
            return self._offset_at(hosted, asked.timestamp, from_offset)
        except _Refused as refused:
            return _Found(refused.error_code)
        except StorageFailed:
            return _Found(ErrorCode.KAFKA_STORAGE_ERROR)

    def _written(self, index: int, found: "_Found") -> bytes:
        timestamp_ms, offset = found.timestamp_ms, found.offset
        if found.batch is not None:
            timestamp_ms, offset = found.batch.timestamp_ms, found.batch.offset
        told = _PARTITION.pack(index, found.error_code, timestamp_ms, offset)
        if self._header.api_version >= _EPOCHS_SINCE:
            told += _EPOCH.pack(found.leader_epoch)
        return told + self._end

    def _offset_at(self, hosted: HostedPartition, timestamp_ms: int, from_offset: int) -> "_Found":
        """Time and offset, both -1 if no record is that young; a record of a time lies from there on."""
        found = _Found(leader_epoch=hosted.replica.leader_epoch)
        if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
            start_offset = hosted.log.start_offset
            return found._replace(offset=start_offset, leader_epoch=_epoch_of(hosted, start_offset))
        if timestamp_ms == LATEST_TIERED:
            return found._replace(leader_epoch=_UNKNOWN)
        latest = hosted.replica.latest_offset()
        if latest is None:
            # The end offset would seem to go back; older clients know no better word for "not yet".
            raise _Refused(
                ErrorCode.OFFSET_NOT_AVAILABLE
                if self._header.api_version >= _OFFSET_NOT_AVAILABLE_SINCE
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
        if timestamp_ms == LATEST:
            return found._replace(offset=latest)
        if timestamp_ms == LARGEST_TIME:
            place = hosted.log.youngest(latest, from_offset)
        else:
            place = hosted.log.first_from(timestamp_ms, latest, from_offset)
        if place is None:
            return found._replace(leader_epoch=_UNKNOWN)
        batch = hosted.log.batch_at(place.offset)
        found = found._replace(leader_epoch=_epoch_of(hosted, place.offset))
        if timestamp_ms == LARGEST_TIME:
            return found._replace(batch=_Batch(batch, place, place.timestamp_ms, is_largest=True))
        return found._replace(batch=_Batch(batch, place, timestamp_ms))


def _as_stated(leader_epoch: int) -> int:
    """Only −1 states none; what is below it is older than any, as in Kafka, whose Fetch alone differs."""
    return leader_epoch if leader_epoch >= _UNKNOWN else _NOBODY_LED


def _epoch_of(hosted: HostedPartition, offset: int) -> int:
    """That of the record there, by which its reader notices later that another one lies there.

    Behind the last record that of the next one.
    """
    is_there = offset < hosted.log.end_offset
    return hosted.log.epochs.epoch_at(offset) if is_there else hosted.replica.leader_epoch


class _Found(NamedTuple):
    """What is answered for one partition, as far as it is known without opening `batch`."""

    error_code: ErrorCode = ErrorCode.NONE
    timestamp_ms: int = _UNKNOWN
    offset: int = _UNKNOWN
    leader_epoch: int = _UNKNOWN
    batch: "_Batch | None" = None


class _Batch:
    """The batch that holds a record at or after `wanted_ms`.

    Until it was looked into, and if its records cannot be read, the answer is where the batch begins: a
    reader may get some older records first, and never misses one.
    """

    def __init__(
        self, batch: bytes, place: TimestampedOffset, wanted_ms: int, *, is_largest: bool = False
    ) -> None:
        """`is_largest`: that is the largest time that its header states."""
        self._batch = batch
        self._wanted_ms = wanted_ms
        self._is_largest = is_largest
        self._start_offset = place.offset
        self.timestamp_ms, self.offset = place
        self.go_on_from: int | None = None
        """The log begins within it, behind the last record that is young enough: look from there on."""

    def look_into(self) -> None:
        """Find the record; beside the loop."""
        with contextlib.suppress(CorruptBatch, UnsupportedCompression):
            header = batches.read_header(self._batch)
            has_one_time = header.attributes & batches.APPEND_TIME_BIT
            records = records_of(memoryview(self._batch), header, OPENED_BYTES)
            youngest_left = TimestampedOffset(_UNKNOWN, _UNKNOWN)
            for frame in frames(records, header.record_count):
                timestamp_ms = header.max_timestamp_ms
                if not has_one_time:
                    # A liar's record may be younger than its batch says, and than any answer can.
                    timestamp_ms = min(header.base_timestamp_ms + frame.timestamp_delta, timestamp_ms)
                offset = header.base_offset + frame.offset_delta
                if offset < self._start_offset:
                    continue
                if timestamp_ms >= self._wanted_ms:
                    self.timestamp_ms, self.offset = timestamp_ms, offset
                    return
                if timestamp_ms > youngest_left.timestamp_ms:
                    youngest_left = TimestampedOffset(timestamp_ms, offset)
            if header.base_offset < self._start_offset:
                self.go_on_from = header.next_offset
                if self._is_largest:
                    self.timestamp_ms, self.offset = youngest_left

    def holds_more_than(self, rest: _Found) -> bool:
        """Whether the largest time is that of a record that is left here, though a larger one is deleted."""
        if not self._is_largest or rest.error_code is not ErrorCode.NONE or self.offset == _UNKNOWN:
            return False
        return rest.batch is None or rest.batch.timestamp_ms <= self.timestamp_ms
