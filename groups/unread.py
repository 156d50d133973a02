"""This room finds what groups have not read of partitions that are to be removed."""

from typing import Any

from muster.kernel.topology import Unread

MOST = 1_000

_UNREAD = """
WITH gone AS (
    SELECT partition.topic_id, partition.partition, progress.high_watermark
    FROM topic JOIN partition ON partition.topic_id = topic.topic_id
    JOIN partition_progress AS progress ON progress.partition_id = partition.id
    WHERE topic.name = %(topic)s AND partition.partition >= %(first)s AND progress.high_watermark > 0
), reads AS (
    SELECT group_name FROM committed_offset WHERE topic_id IN (SELECT topic_id FROM gone)
    UNION SELECT group_name FROM partition_ownership WHERE topic_id IN (SELECT topic_id FROM gone)
)
SELECT reads.group_name, gone.partition, COALESCE(gone.high_watermark - committed.committed_offset, -1)
FROM gone CROSS JOIN reads LEFT JOIN committed_offset AS committed
     ON committed.group_name = reads.group_name AND committed.topic_id = gone.topic_id
     AND committed.partition = gone.partition
WHERE committed.committed_offset IS NULL OR committed.committed_offset < gone.high_watermark
ORDER BY 1, 2 LIMIT %(most)s
"""


def find(connection: Any, topic: str, first: int) -> list[Unread]:
    """Of each group that reads the topic, which of its partitions from `first` on it has not read to the end.

    As leaders last said where that is, and as far as groups have committed. Who has committed nothing for one
    that has records may not have read any.
    """
    with connection.cursor() as cursor:
        cursor.execute(_UNREAD, {"topic": topic, "first": first, "most": MOST})
        return [Unread(*row) for row in cursor.fetchall()]
