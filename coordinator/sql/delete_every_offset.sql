DELETE FROM committed_offset WHERE group_name = %(group)s
