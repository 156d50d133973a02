-- No row comes back when somebody else wrote the group first: decide again.
INSERT INTO consumer_group (name, shard, protocol, protocol_type, protocol_name, leader, phase, generation,
                            version, rebalance_mode, assignor, copies, error, ephemeral)
VALUES (%(group)s, %(shard)s, %(protocol)s, %(protocol_type)s, %(protocol_name)s, %(leader)s, %(phase)s,
        %(generation)s, %(version)s, %(rebalance_mode)s, %(assignor)s, %(copies)s, %(error)s,
        %(ephemeral)s)
ON CONFLICT (name) DO NOTHING
RETURNING version
