DELETE FROM group_waiting WHERE group_name = ANY (%(groups)s::text[])
