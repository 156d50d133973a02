DELETE FROM classic_member WHERE group_name = %(group)s AND member_id = ANY (%(member_ids)s::text[])
