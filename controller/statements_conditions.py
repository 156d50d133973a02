"""This room holds the SQL of what brokers say of themselves, for people: each statement in bulk."""

from typing import Final

NOTE_CONDITIONS: Final = """
INSERT INTO broker_condition (broker_id, disk_total_bytes, disk_usable_bytes, disk_reserve_bytes,
    short_since, throttled, throttled_more, version, at)
SELECT u.broker_id, total, usable, reserve, CASE WHEN is_full THEN now() END, throttled, more,
    u.version, now()
FROM unnest(%(broker_id)s::int[], %(total)s::bigint[], %(usable)s::bigint[], %(reserve)s::bigint[],
    %(is_full)s::bool[], %(throttled)s::jsonb[], %(more)s::int[], %(version)s::text[])
    AS u(broker_id, total, usable, reserve, is_full, throttled, more, version)
JOIN broker ON broker.broker_id = u.broker_id
ORDER BY u.broker_id
ON CONFLICT (broker_id) DO UPDATE SET disk_total_bytes = EXCLUDED.disk_total_bytes,
    disk_usable_bytes = EXCLUDED.disk_usable_bytes, disk_reserve_bytes = EXCLUDED.disk_reserve_bytes,
    short_since = CASE WHEN EXCLUDED.short_since IS NOT NULL
        THEN coalesce(broker_condition.short_since, EXCLUDED.short_since) END,
    throttled = EXCLUDED.throttled, throttled_more = EXCLUDED.throttled_more,
    version = EXCLUDED.version, at = EXCLUDED.at"""

FORGET_LOGS: Final = "DELETE FROM log_note WHERE broker_id = ANY (%(broker_id)s::int[])"

NOTE_LOGS: Final = """
INSERT INTO log_note (broker_id, topic_id, partition, state, why, end_offset, since)
SELECT u.broker_id, topic_id, partition, state, why, nullif(end_offset, -1),
    now() - age_ms * interval '1 millisecond'
FROM unnest(%(broker_id)s::int[], %(topic_id)s::uuid[], %(partition)s::int[], %(state)s::text[],
    %(why)s::text[], %(end_offset)s::bigint[], %(age_ms)s::bigint[])
    AS u(broker_id, topic_id, partition, state, why, end_offset, age_ms)
JOIN broker ON broker.broker_id = u.broker_id
ORDER BY topic_id, partition, u.broker_id
ON CONFLICT (topic_id, partition, broker_id) DO UPDATE SET state = EXCLUDED.state, why = EXCLUDED.why,
    end_offset = EXCLUDED.end_offset, since = EXCLUDED.since"""

SOUND_LOGS: Final = """
DELETE FROM log_note USING unnest(%(broker_id)s::int[], %(topic_id)s::uuid[], %(partition)s::int[])
    AS u(broker_id, topic_id, partition)
WHERE log_note.topic_id = u.topic_id AND log_note.partition = u.partition
    AND log_note.broker_id = u.broker_id"""

FORGET_LAGS: Final = "DELETE FROM lag_note WHERE broker_id = ANY (%(broker_id)s::int[])"

NOTE_LAGS: Final = """
WITH said AS (
    SELECT u.broker_id, topic_id, partition, string_to_array(lagging, ',')::int[] AS lagging,
        now() - age_ms * interval '1 millisecond' AS since
    FROM unnest(%(broker_id)s::int[], %(topic_id)s::uuid[], %(partition)s::int[], %(lagging)s::text[],
        %(age_ms)s::bigint[]) AS u(broker_id, topic_id, partition, lagging, age_ms)
), over AS (
    DELETE FROM lag_note USING said
    WHERE said.lagging = '{}' AND lag_note.topic_id = said.topic_id
        AND lag_note.partition = said.partition AND lag_note.broker_id = said.broker_id)
INSERT INTO lag_note (broker_id, topic_id, partition, lagging, since)
SELECT said.broker_id, topic_id, partition, lagging, since FROM said
JOIN broker ON broker.broker_id = said.broker_id
WHERE lagging <> '{}'
ORDER BY topic_id, partition, said.broker_id
ON CONFLICT (topic_id, partition, broker_id) DO UPDATE SET lagging = EXCLUDED.lagging,
    since = EXCLUDED.since"""

FORGET_CONDITIONS: Final = "DELETE FROM broker_condition WHERE broker_id = ANY (%(broker_id)s::int[])"
