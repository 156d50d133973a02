-- Strategies and what is said to them come as one array literal a member: arrays of arrays are one array only.
INSERT INTO classic_member (group_name, member_id, group_instance_id, client_id, client_host,
                            session_timeout_ms, rebalance_timeout_ms, protocol_names, protocol_metadata,
                            assignment, observed, node)
SELECT %(group)s, member_id, group_instance_id, client_id, client_host, session_timeout_ms,
       rebalance_timeout_ms, protocol_names::text[], protocol_metadata::bytea[], decode(assignment, 'hex'),
       observed::jsonb, %(node)s
FROM unnest(%(member_ids)s::text[], %(group_instance_ids)s::text[], %(client_ids)s::text[],
            %(client_hosts)s::text[], %(session_timeouts_ms)s::int[], %(rebalance_timeouts_ms)s::int[],
            %(protocol_names)s::text[], %(protocol_metadata)s::text[], %(assignments)s::text[],
            %(observed)s::text[])
     AS u (member_id, group_instance_id, client_id, client_host, session_timeout_ms, rebalance_timeout_ms,
           protocol_names, protocol_metadata, assignment, observed)
ON CONFLICT (group_name, member_id) DO UPDATE
SET group_instance_id = EXCLUDED.group_instance_id, client_id = EXCLUDED.client_id,
    client_host = EXCLUDED.client_host, session_timeout_ms = EXCLUDED.session_timeout_ms,
    rebalance_timeout_ms = EXCLUDED.rebalance_timeout_ms, protocol_names = EXCLUDED.protocol_names,
    protocol_metadata = EXCLUDED.protocol_metadata, assignment = EXCLUDED.assignment,
    observed = EXCLUDED.observed, node = EXCLUDED.node
