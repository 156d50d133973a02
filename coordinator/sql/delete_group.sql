DELETE FROM consumer_group WHERE name = %(group)s
