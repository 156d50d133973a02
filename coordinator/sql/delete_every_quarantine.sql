DELETE FROM group_quarantine WHERE group_name = ANY (%(groups)s::text[])
