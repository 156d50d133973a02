DELETE FROM committed_offset WHERE group_name = ANY (%(groups)s::text[])
