DELETE FROM group_quarantine WHERE group_name = %(group)s AND member_id = %(member_id)s
