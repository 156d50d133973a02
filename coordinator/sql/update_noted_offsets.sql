-- As update_offsets, with what Kafka clients commit beside an offset; an expiry of -1 is none.
UPDATE committed_offset
SET committed_offset = u.committed_offset, leader_epoch = u.leader_epoch, metadata = u.metadata,
    expires_at = to_timestamp(nullif(u.expires_at_ms, -1) / 1000.0), version = version + 1,
    committed_at = GREATEST(now(), (SELECT max(added_again_at) FROM partition WHERE base_epoch > 0)),
    moved_at = CASE WHEN committed_offset.committed_offset = u.committed_offset THEN moved_at ELSE now() END
FROM unnest(%(ids)s::bigint[], %(offsets)s::bigint[], %(leader_epochs)s::int[], %(metadata)s::text[],
            %(expirations)s::bigint[])
     AS u (id, committed_offset, leader_epoch, metadata, expires_at_ms)
WHERE committed_offset.id = u.id
RETURNING committed_offset.id
