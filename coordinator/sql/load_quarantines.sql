SELECT group_name, member_id, length_ms, why FROM group_quarantine WHERE group_name = ANY (%(groups)s)
