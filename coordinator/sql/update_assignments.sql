UPDATE classic_member m
SET assignment = decode(u.assignment, 'hex'), observed = u.observed::jsonb
FROM unnest(%(member_ids)s::text[], %(assignments)s::text[], %(observed)s::text[])
     AS u (member_id, assignment, observed)
WHERE m.group_name = %(group)s AND m.member_id = u.member_id
