-- What is older than offsets are kept, by this server's clock: only time is looked at here, and whether the group
-- may lose it is decided by its owner. The time of a commit counts where the group never had a member or has some;
-- else since when it has none (conformance 130 to 134). For OFFSET 0 see removed_offsets.
SELECT o.group_name, o.topic_name, o.topic_id, o.partition, o.committed_offset,
       (extract(epoch FROM now() - o.committed_at) * 1000)::bigint, o.expires_at <= now()
FROM consumer_group g CROSS JOIN LATERAL (SELECT * FROM committed_offset WHERE group_name = g.name OFFSET 0) o
WHERE g.shard = %(shard)s AND g.phase IN ('Empty', 'Stable')
  AND CASE WHEN o.expires_at IS NOT NULL THEN o.expires_at
           WHEN g.phase = 'Stable' OR g.protocol = 'classic' AND g.protocol_type = ''
           THEN o.committed_at + make_interval(mins => %(retention_minutes)s)
           ELSE g.phase_entered_at + make_interval(mins => %(retention_minutes)s) END <= now()
