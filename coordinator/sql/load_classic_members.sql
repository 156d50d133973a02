-- In the order in which they joined first: among equals the first becomes the leader.
SELECT group_name, member_id, group_instance_id, client_id, client_host, session_timeout_ms,
       rebalance_timeout_ms, protocol_names, protocol_metadata, assignment
FROM classic_member
WHERE group_name = ANY (%(groups)s)
ORDER BY id
