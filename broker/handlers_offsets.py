"""This room answers ListOffsets and OffsetForLeaderEpoch from the logs that are led here."""

from typing import Any, Final

from broker.core.leader_epochs import offset_for_leader_epoch
from broker.hosted import HostedPartition
from broker.log.outcomes import StorageFailed
from broker.replicas import DataPlane
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    build,
    encode_reply,
    part,
    read_request,
    response_class,
)
from muster.kernel.error_codes import ErrorCode

LATEST: Final = -1
EARLIEST: Final = -2
_UNKNOWN: Final = -1
_OFFSET_NOT_AVAILABLE_SINCE: Final = 5


class _Refused(Exception):
    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(error_code.name)
        self.error_code = error_code


class OffsetHandlers:
    """Serves questions about offsets from one data plane."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane

    def list_offsets(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Earliest, latest, or the first at a time (conformance 224). Raises MalformedFrame."""
        request = read_request(header, frame)
        version = header.api_version
        shape = response_class(ApiKey.LIST_OFFSETS, version)
        topic_answer = part(shape, "ListOffsetsTopicResponse")
        topics = tuple(
            topic_answer(
                name=topic.name,
                partitions=tuple(
                    self._listed(shape, version, topic.name, asked) for asked in topic.partitions
                ),
            )
            for topic in request.topics
        )
        body = build(shape, topics=topics)
        reply.send(encode_reply(ApiKey.LIST_OFFSETS, version, header.correlation_id, body))

    def _listed(self, shape: Any, version: int, topic: str, asked: Any) -> Any:
        error_code, timestamp_ms, offset, epoch = ErrorCode.NONE, _UNKNOWN, _UNKNOWN, _UNKNOWN
        try:
            epoch_stated = getattr(asked, "current_leader_epoch", _UNKNOWN)
            hosted = self._led(topic, asked.partition_index, epoch_stated)
            timestamp_ms, offset = self._offset_at(hosted, asked.timestamp, version)
            epoch = hosted.replica.leader_epoch
        except _Refused as refused:
            error_code = refused.error_code
        except StorageFailed:
            error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return build(
            part(shape, "ListOffsetsPartitionResponse"),
            partition_index=asked.partition_index,
            error_code=error_code,
            timestamp=timestamp_ms,
            offset=offset,
            leader_epoch=epoch,
        )

    def _offset_at(self, hosted: HostedPartition, timestamp_ms: int, version: int) -> tuple[int, int]:
        """(time, offset), both -1 if no record is that young."""
        if timestamp_ms == EARLIEST:
            return _UNKNOWN, hosted.log.start_offset
        latest = hosted.replica.latest_offset()
        if latest is None:
            # The end offset would seem to go back; older clients know no better word for "not yet".
            raise _Refused(
                ErrorCode.OFFSET_NOT_AVAILABLE
                if version >= _OFFSET_NOT_AVAILABLE_SINCE
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
        if timestamp_ms == LATEST:
            return _UNKNOWN, latest
        if timestamp_ms < 0:
            raise _Refused(ErrorCode.INVALID_REQUEST)
        found = hosted.log.first_from(timestamp_ms, latest)
        return (_UNKNOWN, _UNKNOWN) if found is None else (found.timestamp_ms, found.offset)

    def offset_for_leader_epoch(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Where an epoch ends (conformance 230). Raises MalformedFrame."""
        request = read_request(header, frame)
        shape = response_class(ApiKey.OFFSET_FOR_LEADER_EPOCH, header.api_version)
        topic_answer = part(shape, "OffsetForLeaderTopicResult")
        topics = tuple(
            topic_answer(
                topic=topic.topic,
                partitions=tuple(self._epoch_end(shape, topic.topic, asked) for asked in topic.partitions),
            )
            for topic in request.topics
        )
        body = build(shape, topics=topics)
        key = ApiKey.OFFSET_FOR_LEADER_EPOCH
        reply.send(encode_reply(key, header.api_version, header.correlation_id, body))

    def _epoch_end(self, shape: Any, topic: str, asked: Any) -> Any:
        error_code, epoch, end_offset = ErrorCode.NONE, _UNKNOWN, _UNKNOWN
        try:
            hosted = self._led(topic, asked.partition, asked.current_leader_epoch)
            epoch, end_offset = offset_for_leader_epoch(
                hosted.log.epochs, asked.leader_epoch, hosted.replica.leader_epoch, hosted.log.end_offset
            )
        except _Refused as refused:
            error_code = refused.error_code
        return build(
            part(shape, "EpochEndOffset"),
            error_code=error_code,
            partition=asked.partition,
            leader_epoch=epoch,
            end_offset=end_offset,
        )

    def _led(self, topic: str, partition: int, leader_epoch: int) -> HostedPartition:
        hosted = self._plane.named(topic, partition)
        if hosted is None:
            known = self._plane.view.partition(topic, partition)
            raise _Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        refusal = hosted.replica.refusal(leader_epoch)
        if refusal is not ErrorCode.NONE:
            raise _Refused(refusal)
        return hosted
