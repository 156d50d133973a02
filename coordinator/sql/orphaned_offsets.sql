-- Offsets of topics that are no more; an id is never given again.
SELECT o.group_name, o.topic_id
FROM consumer_group g JOIN committed_offset o ON o.group_name = g.name
WHERE g.shard = %(shard)s AND NOT EXISTS (SELECT FROM topic t WHERE t.topic_id = o.topic_id)
GROUP BY 1, 2
