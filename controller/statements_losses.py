"""This room holds the SQL of elections that may have lost records: each statement in bulk."""

from typing import Final

READ_LOSSES: Final = """
SELECT topic_id, topic_name, partition, leader_epoch, leader, isr, reason,
    CASE WHEN told_at IS NOT NULL THEN coalesce(start_offset, -1) END, cuts, acknowledged_at IS NOT NULL,
    acknowledged_by, acknowledged_why, version
FROM election_loss WHERE NOT closed ORDER BY id"""

ADD_LOSSES: Final = """
INSERT INTO election_loss (topic_id, topic_name, partition, leader_epoch, leader, isr, reason, committed,
    committed_at, cuts, acknowledged_by, acknowledged_why, closed, version)
SELECT u.topic_id, topic.name, u.partition, u.leader_epoch, u.leader, u.isr::int[], u.reason,
    progress.high_watermark, progress.at, '[]', '', '', false, %(version)s
FROM unnest(%(topic_id)s::uuid[], %(partition)s::int[], %(leader_epoch)s::int[], %(leader)s::int[],
    %(isr)s::text[], %(reason)s::text[]) AS u(topic_id, partition, leader_epoch, leader, isr, reason)
JOIN topic ON topic.topic_id = u.topic_id
JOIN partition ON partition.topic_id = u.topic_id AND partition.partition = u.partition
LEFT JOIN partition_progress AS progress ON progress.partition_id = partition.id
ORDER BY u.topic_id, u.partition, u.leader_epoch"""
"""What the last leader had said it committed stands beside: the new one soon says less."""

CHANGE_LOSSES: Final = """
UPDATE election_loss SET start_offset = nullif(u.start_offset, -1),
    told_at = CASE WHEN u.start_offset IS NULL THEN NULL ELSE coalesce(told_at, now()) END,
    cuts = u.cuts,
    cut_at = CASE WHEN jsonb_array_length(u.cuts) > jsonb_array_length(election_loss.cuts) THEN now()
        ELSE cut_at END,
    acknowledged_at = CASE WHEN u.acknowledged THEN coalesce(acknowledged_at, now()) END,
    acknowledged_by = u.acknowledged_by, acknowledged_why = u.acknowledged_why, closed = u.closed,
    version = u.version
FROM unnest(%(topic_id)s::uuid[], %(partition)s::int[], %(leader_epoch)s::int[], %(start_offset)s::bigint[],
    %(cuts)s::jsonb[], %(acknowledged)s::bool[], %(acknowledged_by)s::text[], %(acknowledged_why)s::text[],
    %(closed)s::bool[], %(version)s::bigint[])
    AS u(topic_id, partition, leader_epoch, start_offset, cuts, acknowledged, acknowledged_by,
        acknowledged_why, closed, version)
WHERE election_loss.topic_id = u.topic_id AND election_loss.partition = u.partition
    AND election_loss.leader_epoch = u.leader_epoch AND NOT election_loss.closed"""

CLOSE_LOSSES: Final = """
UPDATE election_loss SET closed = true
WHERE NOT closed AND topic_id = ANY (%(topic_id)s::uuid[]) AND partition >= %(first)s"""
"""Their partitions are no more: nobody will tell."""
