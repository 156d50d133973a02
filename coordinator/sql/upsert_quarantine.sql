INSERT INTO group_quarantine (group_name, member_id, length_ms, why)
VALUES (%(group)s, %(member_id)s, %(length_ms)s, %(why)s)
ON CONFLICT (group_name, member_id) DO UPDATE
SET length_ms = EXCLUDED.length_ms, why = EXCLUDED.why, imposed_at = now()
