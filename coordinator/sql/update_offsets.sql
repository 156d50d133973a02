-- As upsert_offsets, of rows whose ids are known: neither their keys nor a lock of each cost anything.
UPDATE committed_offset
SET committed_offset = u.committed_offset, leader_epoch = -1, metadata = '', version = version + 1,
    committed_at = GREATEST(now(), (SELECT max(added_again_at) FROM partition WHERE base_epoch > 0)),
    expires_at = NULL,
    moved_at = CASE WHEN committed_offset.committed_offset = u.committed_offset THEN moved_at ELSE now() END
FROM unnest(%(ids)s::bigint[], %(offsets)s::bigint[]) AS u (id, committed_offset)
WHERE committed_offset.id = u.id
RETURNING committed_offset.id
