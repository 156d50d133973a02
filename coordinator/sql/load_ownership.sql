SELECT group_name, owner, topic_name, topic_id, partition, since_generation, state = 'running'
FROM partition_ownership
WHERE group_name = ANY (%(groups)s) AND copy = 0
