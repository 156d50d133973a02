-- Under the locks of every lease: no owner's turn runs beside it.
UPDATE consumer_group SET generation = generation + %(by)s, version = version + 1, changed_at = now()
