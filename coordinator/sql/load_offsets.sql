SELECT group_name, topic_name, topic_id, partition, committed_offset, leader_epoch, metadata,
       (extract(epoch FROM expires_at) * 1000)::bigint
FROM committed_offset
WHERE group_name = ANY (%(groups)s)
