SELECT group_name, member_id, encode(token_hash, 'hex'), subscription::text, session_timeout_ms,
       auto_commit, auto_offset_reset, client_id, client_host, rack, stands_by
FROM group_member
WHERE group_name = ANY (%(groups)s)
