-- Conditional on the version that was decided on; no row comes back: decide again.
UPDATE consumer_group
SET phase = %(phase)s::text, generation = %(generation)s, version = %(version)s, error = %(error)s,
    protocol = %(protocol)s, protocol_type = %(protocol_type)s, protocol_name = %(protocol_name)s,
    leader = %(leader)s, rebalance_mode = %(rebalance_mode)s, assignor = %(assignor)s, copies = %(copies)s,
    ephemeral = %(ephemeral)s, changed_at = now(),
    phase_entered_at = CASE WHEN phase = %(phase)s::text THEN phase_entered_at ELSE now() END
WHERE name = %(group)s AND version = %(version_before)s
RETURNING version
