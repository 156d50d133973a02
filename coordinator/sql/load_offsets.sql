SELECT group_name, topic_name, topic_id, partition, committed_offset
FROM committed_offset
WHERE group_name = ANY (%(groups)s)
