"""This room answers questions about logs as they lie here: DescribeLogDirs, AlterReplicaLogDirs, which moves
nothing, and DescribeProducers.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from broker.core.producers import ProducerState
from broker.hosted import HostedPartition
from broker.replicas import DataPlane
from kafkaserver.admin.log_dirs import (
    DescribedFolder,
    DescribedLog,
    DescribedLogs,
    answer_alter_log_dirs,
    answer_log_dirs,
    wanted,
)
from kafkaserver.callers import KafkaCaller, caller_of
from kafkaserver.later import Later
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, build, encode_reply, part, read_request, response_class
from muster.kernel.error_codes import ErrorCode
from muster.kernel.topic_names import can_name_a_topic

_UNKNOWN: Final = -1
_AT_ONCE: Final = 1_000
"""So many logs are looked at before the loop may do something else."""

MOST_PRODUCERS_TOLD: Final = 20_000
"""In one answer: whoever names a partition of thousands again and again is told of them no more often."""


class LogHandlers:
    """Serves what one data plane holds."""

    def __init__(self, plane: DataPlane, later: Later) -> None:
        self._plane = plane
        self._later = later

    # -- DescribeLogDirs

    def describe_log_dirs(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Every log that lies here, or those that are named; what is not here, or has failed, is left out.

        Who may not see what the cluster is made of is told of no directory, and whom names bound of no room:
        what of it is taken tells of others' topics. Raises MalformedFrame.
        """
        asked, size_bytes = wanted(read_request(header, frame)), len(frame)
        caller = caller_of(reply)
        if not caller.may("operate", "view"):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            reply.send(answer_log_dirs(header, None, error))
            return
        work = self._describe_folder(header, asked, caller, reply)
        self._later.start(reply, work, size_bytes=size_bytes)

    async def _describe_folder(
        self,
        header: RequestHeader,
        asked: dict[str, frozenset[int]] | None,
        caller: KafkaCaller,
        reply: Reply,
    ) -> None:
        folder = self._plane.folder
        total, usable = _UNKNOWN, _UNKNOWN
        if caller.is_unbounded:
            total, usable = await asyncio.to_thread(_room, folder)
        logs = DescribedLogs(header.api_version)
        for number, one in enumerate(self._described(asked, caller), 1):
            logs.add(one)
            if number % _AT_ONCE == 0:
                await self._later.turn()
        reply.send(answer_log_dirs(header, DescribedFolder(str(folder), total, usable, logs)))

    def _described(
        self, asked: dict[str, frozenset[int]] | None, caller: KafkaCaller
    ) -> Iterator[DescribedLog]:
        for hosted in self._plane.partitions():
            topic, number = hosted.topic, hosted.key.partition
            if hosted.replica.failed:
                # As in Kafka, which lists nothing of a directory that is offline: its size is not known.
                continue
            if (asked is None or number in asked.get(topic, ())) and caller.may_describe(topic):
                lag = max(0, hosted.high_watermark - hosted.log.end_offset)
                yield DescribedLog(topic, number, hosted.log.size_bytes, lag)

    # -- AlterReplicaLogDirs

    def alter_log_dirs(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Where a log is wanted in the one directory it lies there already. Raises MalformedFrame."""
        caller = caller_of(reply)

        def outcome(path: str, topic: str, number: int) -> ErrorCode:
            if not caller.may_create(topic):
                return ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return self._lies_in(path, topic, number)

        reply.send(answer_alter_log_dirs(header, read_request(header, frame), outcome))

    def _lies_in(self, path: str, topic: str, number: int) -> ErrorCode:
        """In Kafka's order; who moves a replica here asks again until it has come."""
        if path != str(self._plane.folder):
            return ErrorCode.LOG_DIR_NOT_FOUND
        hosted = self._plane.found(topic, number)
        if isinstance(hosted, HostedPartition):
            return ErrorCode.KAFKA_STORAGE_ERROR if hosted.replica.failed else ErrorCode.NONE
        is_elsewhere = hosted is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else hosted

    # -- DescribeProducers

    def describe_producers(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """The idempotent producers whose batches a replica here remembers (KIP-664). Raises MalformedFrame.

        A follower tells of its own log, as in Kafka: who looks for what hangs at one broker asks for all of
        its replicas.
        """
        request = read_request(header, frame)
        caller = caller_of(reply)
        shape = response_class(header.api_key, header.api_version)
        room = MOST_PRODUCERS_TOLD
        topics = []
        for topic in request.topics:
            told = []
            for number in topic.partition_indexes:
                told.append(self._producers_of(shape, topic.name, number, caller, room))
                room -= len(told[-1].active_producers)
            topics.append(part(shape, "TopicResponse")(name=topic.name, partitions=tuple(told)))
        body = build(shape, topics=tuple(topics))
        reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))

    def _producers_of(self, shape: Any, topic: str, number: int, caller: KafkaCaller, room: int) -> Any:
        hosted = self._plane.found(topic, number)
        if not caller.may_read(topic):
            hosted = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not can_name_a_topic(topic):
            hosted = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif isinstance(hosted, HostedPartition) and hosted.replica.failed:
            hosted = ErrorCode.KAFKA_STORAGE_ERROR
        elif isinstance(hosted, HostedPartition) and len(hosted.log.producers) > room:
            hosted = ErrorCode.POLICY_VIOLATION
        is_refused = isinstance(hosted, ErrorCode)
        return build(
            part(shape, "PartitionResponse"),
            partition_index=number,
            error_code=hosted if is_refused else ErrorCode.NONE,
            error_message=_TOO_MANY if hosted is ErrorCode.POLICY_VIOLATION else None,
            active_producers=()
            if isinstance(hosted, ErrorCode)
            else tuple(_state(shape, *one) for one in hosted.log.producers.states()),
        )


_TOO_MANY: Final = f"one answer tells of {MOST_PRODUCERS_TOLD} producers at most; ask for this one in another"


def _state(shape: Any, producer_id: int, state: ProducerState) -> Any:
    return part(shape, "ProducerState")(
        producer_id=producer_id,
        producer_epoch=state.epoch,
        last_sequence=state.batches[-1].last_sequence if state.batches else _UNKNOWN,
        last_timestamp=state.last_append_ms,
        coordinator_epoch=_UNKNOWN,
        current_txn_start_offset=_UNKNOWN,
    )


def _room(folder: Path) -> tuple[int, int]:
    """Bytes in all and bytes that this process may use of the file system; -1 where nobody tells."""
    try:
        told = os.statvfs(folder)
    except OSError:
        return _UNKNOWN, _UNKNOWN
    return told.f_frsize * told.f_blocks, told.f_frsize * told.f_bavail
