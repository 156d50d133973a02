"""This room reads committed offsets beside the ends of their logs, a page at a time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from access.scoped_rows import covers, values_of
from muster.kernel.scopes import EVERYTHING, Scope

_COLUMNS = """
    SELECT committed.group_name AS "group", committed.topic_name, committed.topic_id, committed.partition,
           committed.committed_offset AS "offset", committed.leader_epoch, committed.metadata,
           committed.version, committed.committed_at, progress.high_watermark, progress.at AS progress_at
    FROM committed_offset AS committed
    LEFT JOIN partition
           ON partition.topic_id = committed.topic_id AND partition.partition = committed.partition
    LEFT JOIN partition_progress AS progress ON progress.partition_id = partition.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRow:
    """One committed offset and how far its log got, as far as known."""

    group: str
    topic_name: str
    topic_id: Any
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    version: int
    committed_at: datetime
    high_watermark: int | None
    progress_at: datetime | None

    @property
    def lag(self) -> int | None:
        """Records up to the high watermark; None: nobody said how far the log got."""
        return None if self.high_watermark is None else max(0, self.high_watermark - self.offset)

    @property
    def tag(self) -> str:
        """Made from versions: of the topic, of the commit, and the moment of the word about the log's end."""
        said_ms = int(self.progress_at.timestamp() * 1000) if self.progress_at else 0
        end = -1 if self.high_watermark is None else self.high_watermark
        return f"{self.topic_id}-{self.version}-{end}-{said_ms}"

    def key(self) -> list[Any]:
        """Where the next page goes on."""
        return [self.group, str(self.topic_id), self.partition]


def offsets_after(
    group: str | None,
    topic: str | None,
    after: tuple[str, str, int] | None,
    limit: int,
    known: tuple[Scope, Scope] = (EVERYTHING, EVERYTHING),
) -> list[OffsetRow]:
    """Offsets in the order of group, topic id and partition, after the key `after`.

    `known` are the groups and the topics of which whoever asks may know.
    """
    groups, topics = known
    conditions = [covers("groups", "committed.group_name"), covers("topics", "committed.topic_name")]
    values = {"group": group, "topic": topic, "limit": limit}
    values |= values_of("groups", groups) | values_of("topics", topics)
    if group is not None:
        conditions.append("committed.group_name = %(group)s")
    if topic is not None:
        conditions.append("committed.topic_name = %(topic)s")
    if after is not None:
        conditions.append(
            "(committed.group_name, committed.topic_id, committed.partition) "
            "> (%(after_group)s, %(after_topic)s::uuid, %(after_partition)s)"
        )
        values |= {"after_group": after[0], "after_topic": after[1], "after_partition": after[2]}
    where = f"WHERE {' AND '.join(conditions)}"
    order = "ORDER BY committed.group_name, committed.topic_id, committed.partition LIMIT %(limit)s"
    return _read(f"{_COLUMNS} {where} {order}", values)


def offset_of(group: str, topic: str, partition: int) -> OffsetRow | None:
    """One committed offset; of topics that had the same name the one committed last."""
    where = (
        "WHERE committed.group_name = %(group)s AND committed.topic_name = %(topic)s "
        "AND committed.partition = %(partition)s ORDER BY committed.committed_at DESC LIMIT 1"
    )
    rows = _read(f"{_COLUMNS} {where}", {"group": group, "topic": topic, "partition": partition})
    return rows[0] if rows else None


def _read(statement: str, values: dict[str, Any]) -> list[OffsetRow]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        names = [column.name for column in cursor.description or ()]
        return [OffsetRow(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


_READERS = """
    SELECT committed.group_name, COALESCE(consumer_group.phase, 'Empty'),
           sum(GREATEST(0, progress.high_watermark - committed.committed_offset)),
           max(committed.committed_at)
    FROM committed_offset AS committed
    LEFT JOIN consumer_group ON consumer_group.name = committed.group_name
    LEFT JOIN partition
           ON partition.topic_id = committed.topic_id AND partition.partition = committed.partition
    LEFT JOIN partition_progress AS progress ON progress.partition_id = partition.id
    WHERE committed.topic_id = %(topic_id)s
    GROUP BY committed.group_name, consumer_group.phase
    ORDER BY consumer_group.phase IN ('Empty', 'Dead') NULLS LAST, max(committed.committed_at) DESC
    LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class Reader:
    """A group that committed something for a topic; `lag` is of this topic, None: nobody knows."""

    group: str
    phase: str
    lag: int | None
    committed_at: datetime

    @property
    def is_active(self) -> bool:
        """It has members, who are thrown out of what is deleted under them."""
        return self.phase not in ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class Readers:
    """The first readers of a topic, and whether there are more."""

    rows: list[Reader]
    more: bool


def readers_of_topic(topic_id: Any, limit: int) -> Readers:
    """The groups that committed something for the topic, those with members first."""
    with connection.cursor() as cursor:
        cursor.execute(_READERS, {"topic_id": topic_id, "limit": limit + 1})
        found = [
            Reader(group, phase, None if lag is None else int(lag), at)
            for group, phase, lag, at in cursor.fetchall()
        ]
    return Readers(found[:limit], len(found) > limit)
