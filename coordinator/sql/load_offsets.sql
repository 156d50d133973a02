-- But for those of partitions that were removed since: others came under their numbers.
SELECT group_name, topic_name, topic_id, partition, committed_offset, leader_epoch, metadata,
       (extract(epoch FROM expires_at) * 1000)::bigint
FROM committed_offset
WHERE group_name = ANY (%(groups)s) AND NOT EXISTS (
    SELECT FROM partition
    WHERE base_epoch > 0 AND partition.topic_id = committed_offset.topic_id
      AND partition.partition = committed_offset.partition AND added_again_at > committed_offset.committed_at)
