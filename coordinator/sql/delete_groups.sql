-- Each in the version that was decided on; too few are changed: decide again.
DELETE FROM consumer_group USING unnest(%(groups)s::text[], %(versions)s::bigint[]) AS gone(name, version)
WHERE consumer_group.name = gone.name AND consumer_group.version = gone.version
