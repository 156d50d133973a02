DELETE FROM committed_offset o
USING unnest(%(topic_ids)s::uuid[], %(partitions)s::int[]) AS u (topic_id, partition)
WHERE o.group_name = %(group)s AND o.topic_id = u.topic_id AND o.partition = u.partition
