-- The arrays come sorted by (group, topic id, partition), so that two batches never wait for each other in a circle.
-- No time of a commit is before that of a partition which was there by then: this server's clock may be set back, and
-- what is older than its partition counts as committed for the one that had the number before it.
INSERT INTO committed_offset (group_name, topic_name, topic_id, partition, committed_offset,
                              leader_epoch, metadata, version, committed_at)
SELECT group_name, topic_name, topic_id, partition, committed_offset, -1, '', 1,
       GREATEST(now(), (SELECT max(added_again_at) FROM partition WHERE base_epoch > 0))
FROM unnest(%(groups)s::text[], %(topic_names)s::text[], %(topic_ids)s::uuid[],
            %(partitions)s::int[], %(offsets)s::bigint[])
     AS u (group_name, topic_name, topic_id, partition, committed_offset)
ON CONFLICT (group_name, topic_id, partition) DO UPDATE
SET committed_offset = EXCLUDED.committed_offset, leader_epoch = EXCLUDED.leader_epoch,
    metadata = EXCLUDED.metadata, version = committed_offset.version + 1,
    committed_at = EXCLUDED.committed_at, expires_at = NULL,
    -- An offset that is committed again is no progress: who stands still commits, too.
    moved_at = CASE WHEN committed_offset.committed_offset = EXCLUDED.committed_offset
                    THEN committed_offset.moved_at ELSE now() END
RETURNING id, group_name, topic_id, partition
