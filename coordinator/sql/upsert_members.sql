WITH wish AS MATERIALIZED (
    SELECT place, subscription::jsonb, sha256(convert_to(subscription, 'UTF8')) AS digest
    FROM unnest(%(subscriptions)s::text[]) WITH ORDINALITY AS w (subscription, place))
INSERT INTO group_member (group_name, member_id, token_hash, subscription, subscription_digest,
                          session_timeout_ms, auto_commit, auto_offset_reset, client_id, client_host, rack,
                          stands_by, node)
SELECT %(group)s, member_id, decode(token_hash, 'hex'), subscription, digest, session_timeout_ms,
       auto_commit, auto_offset_reset, client_id, client_host, rack, stands_by, %(node)s
FROM unnest(%(member_ids)s::text[], %(token_hashes)s::text[], %(places)s::bigint[],
            %(session_timeouts_ms)s::int[], %(auto_commits)s::bool[], %(auto_offset_resets)s::text[],
            %(client_ids)s::text[], %(client_hosts)s::text[], %(racks)s::text[], %(stand_by)s::bool[])
     AS u (member_id, token_hash, place, session_timeout_ms,
           auto_commit, auto_offset_reset, client_id, client_host, rack, stands_by)
     JOIN wish USING (place)
ON CONFLICT (group_name, member_id) DO UPDATE
SET token_hash = EXCLUDED.token_hash, subscription = EXCLUDED.subscription,
    subscription_digest = EXCLUDED.subscription_digest,
    session_timeout_ms = EXCLUDED.session_timeout_ms, auto_commit = EXCLUDED.auto_commit,
    auto_offset_reset = EXCLUDED.auto_offset_reset, client_id = EXCLUDED.client_id,
    client_host = EXCLUDED.client_host, rack = EXCLUDED.rack, stands_by = EXCLUDED.stands_by,
    node = EXCLUDED.node, registered_at = now()
