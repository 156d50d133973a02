-- Offsets of partitions that were removed from their topic, or committed before another one took the number.
-- Of a shard's groups one after the other (OFFSET 0): joined, PostgreSQL reads the offsets of all shards for them.
SELECT o.group_name, o.topic_name, o.topic_id, o.partition, o.committed_offset
FROM consumer_group g CROSS JOIN LATERAL (SELECT * FROM committed_offset WHERE group_name = g.name OFFSET 0) o
JOIN topic t ON t.topic_id = o.topic_id
LEFT JOIN partition p ON p.topic_id = o.topic_id AND p.partition = o.partition
WHERE g.shard = %(shard)s AND (p.id IS NULL OR p.added_again_at > o.committed_at)
