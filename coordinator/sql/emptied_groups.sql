-- For how long each group has been without members that may go if it has no offsets either (conformance 135).
SELECT name, (extract(epoch FROM now() - phase_entered_at) * 1000)::bigint
FROM consumer_group
WHERE shard = %(shard)s AND phase = 'Empty'
  AND phase_entered_at + make_interval(mins => %(retention_minutes)s) <= now()
