-- Every group of a shard, or the one that is named.
SELECT name, generation, version, phase, error, ephemeral, rebalance_mode, assignor, copies,
       protocol, protocol_type, protocol_name, leader
FROM consumer_group
WHERE shard = %(shard)s AND (%(group)s::text IS NULL OR name = %(group)s)
