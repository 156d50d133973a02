DELETE FROM partition_ownership p
USING unnest(%(topic_ids)s::uuid[], %(partitions)s::int[]) AS u (topic_id, partition)
WHERE p.group_name = %(group)s AND p.topic_id = u.topic_id AND p.partition = u.partition AND p.copy > 0
