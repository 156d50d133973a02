-- Every native group of a shard, or the one that is named.
SELECT name, generation, version, phase, error, ephemeral, rebalance_mode, assignor
FROM consumer_group
WHERE protocol = 'native' AND shard = %(shard)s AND (%(group)s::text IS NULL OR name = %(group)s)
