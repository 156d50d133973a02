SELECT group_name, member_id, encode(token_hash, 'hex'), first_value(member_id) OVER alike,
       -- Of lists that are the same one is read: thousands of members may subscribe to a thousand topics.
       CASE WHEN member_id = first_value(member_id) OVER alike THEN subscription::text END,
       session_timeout_ms, auto_commit, auto_offset_reset, client_id, client_host, rack, stands_by
FROM group_member
WHERE group_name = ANY (%(groups)s)
WINDOW alike AS (
    PARTITION BY group_name, subscription_digest, CASE WHEN subscription_digest = '' THEN member_id END
    ORDER BY member_id)
