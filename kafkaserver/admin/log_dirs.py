"""This room answers DescribeLogDirs (how large each log is, how far behind, how much room is left) and
AlterReplicaLogDirs.

A broker has one log directory, so that a log lies where it is wanted or cannot; a node has none.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from muster.kafkawire.api_table import ApiKey, RequestHeader, frame_reply, is_flexible
from muster.kafkawire.fields import NO_TAGS, NOT_THROTTLED, count, text
from muster.kernel.error_codes import ErrorCode


class DescribedLog(NamedTuple):
    """One log; `lag` is by how many records its end is below what is known to be committed."""

    topic: str
    partition: int
    size_bytes: int
    lag: int


class DescribedLogs:
    """Logs by topic, as one answer words them: nothing but bytes is kept until all of them are there.

    Of thirty answers that are made at once half a million objects would be, through which the collector goes
    again and again.
    """

    def __init__(self, version: int) -> None:
        self._flexible = is_flexible(ApiKey.DESCRIBE_LOG_DIRS, version)
        self._tags = NO_TAGS if self._flexible else b""
        self._topics: dict[str, bytearray] = {}

    def add(self, log: DescribedLog) -> None:
        """One more."""
        places = self._topics.get(log.topic)
        if places is None:
            places = self._topics[log.topic] = bytearray()
        places += _LOG.pack(log.partition, log.size_bytes, log.lag, False) + self._tags

    def worded(self) -> Iterator[bytes | bytearray]:
        """The array of topics."""
        size_bytes = _LOG.size + len(self._tags)
        yield count(len(self._topics), self._flexible)
        for name, places in self._topics.items():
            yield text(name, self._flexible) + count(len(places) // size_bytes, self._flexible)
            yield places
            yield self._tags


class DescribedFolder(NamedTuple):
    """The log directory of a broker; bytes are -1 if the system does not tell them. Without logs: None."""

    path: str
    total_bytes: int
    usable_bytes: int
    logs: DescribedLogs | None


_ERROR_SINCE: Final = 3
"""The version of DescribeLogDirs that has a place for an error of the whole answer."""
_ROOM_SINCE: Final = 4
_ERROR = struct.Struct(">h")
_OUTCOME = struct.Struct(">ih")
_LOG = struct.Struct(">iqq?")
_ROOM = struct.Struct(">qq")

NO_FOLDER: Final = DescribedFolder("(a node holds no logs: ask the brokers)", -1, -1, None)
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
    """The frame; no folder, and Kafka's clients take it that nobody may be told.

    By hand, as of twenty thousand logs kio's writer holds the loop for a twelfth of a second.
    """
    version = header.api_version
    flexible = is_flexible(ApiKey.DESCRIBE_LOG_DIRS, version)
    tags = NO_TAGS if flexible else b""
    parts: list[bytes | bytearray] = [NOT_THROTTLED]
    if version >= _ERROR_SINCE:
        parts.append(_ERROR.pack(error))
    parts.append(count(0 if folder is None else 1, flexible))
    if folder is not None:
        parts += _worded(folder, version, flexible)
    return frame_reply(header.api_key, version, header.correlation_id, b"".join((*parts, tags)))


def answer_alter_log_dirs(
    header: RequestHeader, request: Any, outcome: Callable[[str, str, int], ErrorCode]
) -> bytes:
    """The frame; `outcome` says it of a directory, a topic and a partition.

    kafka-reassign-partitions.sh asks this whenever its file names a directory, as the one does that it prints
    for a rollback.
    """
    paths: dict[str, dict[int, str]] = {}
    for wanted_in in request.dirs:
        for topic in wanted_in.topics:
            # As in Kafka: of a partition that is named twice the last directory counts.
            paths.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, wanted_in.path))
    flexible = is_flexible(ApiKey.ALTER_REPLICA_LOG_DIRS, header.api_version)
    tags = NO_TAGS if flexible else b""
    parts = [NOT_THROTTLED, count(len(paths), flexible)]
    for name, wanted_at in paths.items():
        parts += text(name, flexible), count(len(wanted_at), flexible)
        parts += (
            _OUTCOME.pack(number, outcome(path, name, number)) + tags for number, path in wanted_at.items()
        )
        parts.append(tags)
    parts.append(tags)
    return frame_reply(header.api_key, header.api_version, header.correlation_id, b"".join(parts))


def _worded(folder: DescribedFolder, version: int, flexible: bool) -> Iterator[bytes | bytearray]:
    yield _ERROR.pack(ErrorCode.NONE) + text(folder.path, flexible)
    yield from (folder.logs or DescribedLogs(version)).worded()
    if version >= _ROOM_SINCE:
        yield _ROOM.pack(folder.total_bytes, folder.usable_bytes)
    yield NO_TAGS if flexible else b""
