"""This room answers DescribeLogDirs (how large each log is, how far behind, how much room is left) and
AlterReplicaLogDirs.

A broker has one log directory, so that a log lies where it is wanted or cannot; a node has none.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from muster.kafkawire.api_table import RequestHeader, build, encode_reply, part, response_class
from muster.kernel.error_codes import ErrorCode


class DescribedLog(NamedTuple):
    """One log; `lag` is by how many records its end is below what is known to be committed."""

    topic: str
    partition: int
    size_bytes: int
    lag: int


class DescribedFolder(NamedTuple):
    """The log directory of a broker; bytes are -1 if the system does not tell them."""

    path: str
    total_bytes: int
    usable_bytes: int
    logs: Iterable[DescribedLog]


NO_FOLDER: Final = DescribedFolder("(a node holds no logs: ask the brokers)", -1, -1, ())
"""Of a process that holds no logs: kafka-log-dirs.sh asks all who are listed, and fails if one refuses."""


def wanted(request: Any) -> dict[str, frozenset[int]] | None:
    """Partitions by topic that are asked for; None: all. A topic may be named more than once."""
    if request.topics is None:
        return None
    asked: dict[str, frozenset[int]] = {}
    for one in request.topics:
        asked[one.topic] = asked.get(one.topic, frozenset()).union(one.partitions)
    return asked


def answer_log_dirs(
    header: RequestHeader, folder: DescribedFolder | None, error: ErrorCode = ErrorCode.NONE
) -> bytes:
    """The frame; no folder, and Kafka's clients take it that nobody may be told."""
    shape = response_class(header.api_key, header.api_version)
    results = () if folder is None else (_result(shape, folder),)
    body = build(shape, error_code=error, results=results)
    return encode_reply(header.api_key, header.api_version, header.correlation_id, body)


def answer_alter_log_dirs(
    header: RequestHeader, request: Any, outcome: Callable[[str, str, int], ErrorCode]
) -> bytes:
    """The frame; `outcome` says it of a directory, a topic and a partition.

    kafka-reassign-partitions.sh asks this whenever its file names a directory, as the one does that it prints
    for a rollback.
    """
    shape = response_class(header.api_key, header.api_version)
    topic_result, result = (
        part(shape, "AlterReplicaLogDirTopicResult"),
        part(shape, "AlterReplicaLogDirPartitionResult"),
    )
    paths: dict[str, dict[int, str]] = {}
    for wanted_in in request.dirs:
        for topic in wanted_in.topics:
            # As in Kafka: of a partition that is named twice the last directory counts.
            paths.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, wanted_in.path))
    results = []
    for name, wanted_at in paths.items():
        told = (
            build(result, partition_index=number, error_code=outcome(path, name, number))
            for number, path in wanted_at.items()
        )
        results.append(topic_result(topic_name=name, partitions=tuple(told)))
    body = build(shape, results=tuple(results))
    return encode_reply(header.api_key, header.api_version, header.correlation_id, body)


def _result(shape: Any, folder: DescribedFolder) -> Any:
    topic_answer, answer = part(shape, "DescribeLogDirsTopic"), part(shape, "DescribeLogDirsPartition")
    topics: dict[str, list[Any]] = {}
    for one in folder.logs:
        topics.setdefault(one.topic, []).append(
            answer(
                partition_index=one.partition,
                partition_size=one.size_bytes,
                offset_lag=one.lag,
                is_future_key=False,
            )
        )
    return build(
        part(shape, "DescribeLogDirsResult"),
        error_code=ErrorCode.NONE,
        log_dir=folder.path,
        topics=tuple(topic_answer(name=name, partitions=tuple(logs)) for name, logs in topics.items()),
        total_bytes=folder.total_bytes,
        usable_bytes=folder.usable_bytes,
    )
