-- As upsert_offsets, with what Kafka clients commit beside an offset; an expiry of -1 is none.
INSERT INTO committed_offset (group_name, topic_name, topic_id, partition, committed_offset,
                              leader_epoch, metadata, expires_at, version, committed_at)
SELECT group_name, topic_name, topic_id, partition, committed_offset, leader_epoch, metadata,
       to_timestamp(nullif(expires_at_ms, -1) / 1000.0), 1,
       GREATEST(now(), (SELECT max(added_again_at) FROM partition WHERE base_epoch > 0))
FROM unnest(%(groups)s::text[], %(topic_names)s::text[], %(topic_ids)s::uuid[],
            %(partitions)s::int[], %(offsets)s::bigint[],
            %(leader_epochs)s::int[], %(metadata)s::text[], %(expirations)s::bigint[])
     AS u (group_name, topic_name, topic_id, partition, committed_offset,
           leader_epoch, metadata, expires_at_ms)
ON CONFLICT (group_name, topic_id, partition) DO UPDATE
SET committed_offset = EXCLUDED.committed_offset, leader_epoch = EXCLUDED.leader_epoch,
    metadata = EXCLUDED.metadata, expires_at = EXCLUDED.expires_at,
    version = committed_offset.version + 1, committed_at = EXCLUDED.committed_at,
    moved_at = CASE WHEN committed_offset.committed_offset = EXCLUDED.committed_offset
                    THEN committed_offset.moved_at ELSE now() END
RETURNING id, group_name, topic_id, partition
