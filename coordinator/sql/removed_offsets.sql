-- Offsets of partitions that were removed from their topic, or committed before another one took the number.
SELECT o.group_name, o.topic_name, o.topic_id, o.partition, o.committed_offset
FROM consumer_group g JOIN committed_offset o ON o.group_name = g.name
JOIN topic t ON t.topic_id = o.topic_id
LEFT JOIN partition p ON p.topic_id = o.topic_id AND p.partition = o.partition
WHERE g.shard = %(shard)s AND (p.id IS NULL OR p.added_again_at > o.committed_at)
