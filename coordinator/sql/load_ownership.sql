-- A copy that is not the first is a standby's, who owns nothing of it.
SELECT group_name, owner, copy, topic_name, topic_id, partition, since_generation, state = 'running'
FROM partition_ownership
WHERE group_name = ANY (%(groups)s)
