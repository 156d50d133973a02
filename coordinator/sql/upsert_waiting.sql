INSERT INTO group_waiting (group_name, phase, waits_for, missing, arrived, ends_at, told_at)
SELECT u.group_name, u.phase, u.waits_for::jsonb, u.missing, u.arrived,
       CASE WHEN u.ends_in_ms >= 0 THEN now() + u.ends_in_ms * interval '1 millisecond' END, now()
FROM unnest(%(groups)s::text[], %(phases)s::text[], %(names)s::text[], %(missing)s::int[], %(arrived)s::int[],
            %(ends_in_ms)s::bigint[])
     AS u (group_name, phase, waits_for, missing, arrived, ends_in_ms)
JOIN consumer_group ON consumer_group.name = u.group_name
ON CONFLICT (group_name) DO UPDATE
SET phase = EXCLUDED.phase, waits_for = EXCLUDED.waits_for, missing = EXCLUDED.missing,
    arrived = EXCLUDED.arrived, ends_at = EXCLUDED.ends_at, told_at = EXCLUDED.told_at
