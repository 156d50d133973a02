-- Offsets of topics that are no more; an id is never given again. For OFFSET 0 see removed_offsets.
SELECT o.group_name, o.topic_id
FROM consumer_group g CROSS JOIN LATERAL (SELECT * FROM committed_offset WHERE group_name = g.name OFFSET 0) o
WHERE g.shard = %(shard)s AND NOT EXISTS (SELECT FROM topic t WHERE t.topic_id = o.topic_id)
GROUP BY 1, 2
