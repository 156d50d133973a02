-- Conditional on the version that was decided on; no row comes back: decide again.
UPDATE consumer_group
SET phase = %(phase)s, generation = %(generation)s, version = %(version)s, error = %(error)s,
    ephemeral = %(ephemeral)s, changed_at = now()
WHERE name = %(group)s AND version = %(version_before)s AND protocol = 'native'
RETURNING version
