-- That of this name, or all of the group.
DELETE FROM group_quarantine
WHERE group_name = %(group)s AND (%(member_id)s::text IS NULL OR member_id = %(member_id)s)
