DELETE FROM group_waiting WHERE group_name = %(group)s
