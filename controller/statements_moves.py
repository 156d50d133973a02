"""This room holds the SQL of reassignments and plans: each statement has a name and says when it fits.

Everything is in bulk over `unnest`, and every write is conditional: the caller compares the count.
"""

from typing import Final

READ_REASSIGNMENTS: Final = """
SELECT id, topic_id, topic_name, partition, origin, target, phase, principal, reason,
    throttle, plan_id, plan_step
FROM reassignment WHERE phase IN ('Init', 'InProgress') ORDER BY asked_version, asked_place"""

ADD_REASSIGNMENTS: Final = """
INSERT INTO reassignment (id, topic_id, topic_name, partition, origin, target, phase, principal, reason,
    throttle, plan_id, plan_step, asked_version, asked_place, version, started_at, ended_at, copied_bytes)
SELECT id, topic_id, topic_name, partition, origin::int[], target::int[], phase, principal, reason,
    throttle, plan_id, plan_step, %(version)s, place, %(version)s, CASE WHEN phase <> 'Init' THEN now() END,
    CASE WHEN phase IN ('Init', 'InProgress') THEN NULL ELSE now() END,
    CASE WHEN phase IN ('Init', 'InProgress') THEN NULL ELSE 0 END
FROM unnest(%(id)s::uuid[], %(topic_id)s::uuid[], %(topic_name)s::text[], %(partition)s::int[],
    %(origin)s::text[], %(target)s::text[], %(phase)s::text[], %(principal)s::text[], %(reason)s::text[],
    %(throttle)s::bigint[], %(plan_id)s::uuid[], %(plan_step)s::int[])
    WITH ORDINALITY
    AS u(id, topic_id, topic_name, partition, origin, target, phase, principal, reason, throttle, plan_id,
        plan_step, place)"""

CHANGE_REASSIGNMENTS: Final = """
UPDATE reassignment SET phase = u.phase, origin = u.origin::int[], reason = u.reason, version = %(version)s,
    throttle = u.throttle,
    started_at = CASE WHEN u.phase = 'InProgress' THEN coalesce(started_at, now()) ELSE started_at END,
    ended_at = CASE WHEN u.phase IN ('Init', 'InProgress') THEN NULL ELSE now() END,
    copied_bytes = CASE
        WHEN u.phase IN ('Init', 'InProgress') THEN NULL
        WHEN reassignment.phase = 'Init' AND u.phase <> 'Done' THEN 0
        WHEN u.phase = 'Done' AND u.target::int[] <@ u.origin::int[] THEN 0
        WHEN u.phase = 'Done' THEN coalesce(
            (SELECT progress.size_bytes
                * (SELECT count(*) FROM unnest(u.target::int[]) AS new WHERE new <> ALL (u.origin::int[]))
            FROM partition JOIN partition_progress AS progress ON progress.partition_id = partition.id
            WHERE partition.topic_id = reassignment.topic_id
                AND partition.partition = reassignment.partition),
            (SELECT sum(held_bytes) FROM arrival WHERE move_id = reassignment.id))
        ELSE (SELECT sum(held_bytes) FROM arrival WHERE move_id = reassignment.id) END
FROM unnest(%(id)s::uuid[], %(phase)s::text[], %(origin)s::text[], %(reason)s::text[],
    %(throttle)s::bigint[], %(target)s::text[]) AS u(id, phase, origin, reason, throttle, target)
WHERE reassignment.id = u.id AND reassignment.phase IN ('Init', 'InProgress')"""
"""What has ended stays as it ended.

What was copied: of one that is done what its leader held, once for each new replica; else what brokers said.
"""

FAIL_REASSIGNMENTS: Final = """
UPDATE reassignment SET phase = 'Failed', reason = %(reason)s, version = %(version)s, ended_at = now(),
    copied_bytes = CASE WHEN phase = 'Init' THEN 0
        ELSE (SELECT sum(held_bytes) FROM arrival WHERE move_id = reassignment.id) END
WHERE topic_id = %(topic_id)s AND partition = ANY (%(partitions)s::int[])
    AND phase IN ('Init', 'InProgress')"""

READ_PLANS: Final = """
SELECT plan.id, plan.options, plan.phase, plan.version, plan.throttle, plan.at_a_time, plan.step_count,
    plan.proposed_by, plan.reason, plan.changed_by, plan.why, plan.cost
FROM plan WHERE phase NOT IN ('Done', 'Cancelled', 'Failed')
    OR id IN (SELECT plan_id FROM reassignment WHERE phase IN ('Init', 'InProgress') AND plan_id IS NOT NULL)
ORDER BY proposed_version, id"""
"""Those that are not over, and those of which a step is active. A step is as long as its reassignment: these
are few, and what plans once did, kept for people, is never looked through."""

_STEPS: Final = """json_agg(json_build_array(number, step.topic_id, step.topic_name, step.partition,
    reviewed_version, step.origin, step.target, coalesce(size_bytes, -1)) ORDER BY number)::text"""

READ_ASKED_STEPS: Final = f"""
SELECT step.plan_id, {_STEPS}
FROM reassignment AS move JOIN plan_step AS step ON step.plan_id = move.plan_id AND number = plan_step
WHERE move.phase IN ('Init', 'InProgress') AND step.state = 'Asked' GROUP BY 1"""

READ_WAITING_STEPS: Final = f"""
SELECT step.plan_id, {_STEPS} FROM plan_step AS step
WHERE step.plan_id = ANY (%(plan_ids)s::uuid[]) AND step.state = 'Waiting' GROUP BY 1"""
"""Of plans that are not over: of the others they wait for ever."""

PUT_PLANS: Final = """
INSERT INTO plan (id, kind, options, phase, throttle, at_a_time, step_count, cost, proposed_by, reason,
    changed_by, why, version, proposed_version)
SELECT id, kind, options, phase, throttle, at_a_time, step_count, cost, proposed_by, reason, changed_by, why,
    version, version
FROM unnest(%(id)s::uuid[], %(kind)s::text[], %(options)s::jsonb[], %(phase)s::text[], %(throttle)s::bigint[],
    %(at_a_time)s::int[], %(step_count)s::int[], %(cost)s::jsonb[], %(proposed_by)s::text[],
    %(reason)s::text[], %(changed_by)s::text[], %(why)s::text[], %(version)s::bigint[])
    AS u(id, kind, options, phase, throttle, at_a_time, step_count, cost, proposed_by, reason, changed_by,
        why, version)
ON CONFLICT (id) DO UPDATE SET phase = EXCLUDED.phase, throttle = EXCLUDED.throttle,
    step_count = EXCLUDED.step_count, cost = EXCLUDED.cost, changed_by = EXCLUDED.changed_by,
    why = EXCLUDED.why, version = EXCLUDED.version,
    approved_at = CASE WHEN EXCLUDED.phase = 'Approved' THEN now() ELSE plan.approved_at END,
    started_at = CASE WHEN EXCLUDED.phase = 'Running' THEN coalesce(plan.started_at, now())
        ELSE plan.started_at END,
    ended_at = CASE WHEN EXCLUDED.phase IN ('Done', 'Cancelled', 'Failed') THEN now() END
WHERE plan.phase NOT IN ('Done', 'Cancelled', 'Failed')"""
"""What is over stays as it ended."""

ADD_STEPS: Final = """
INSERT INTO plan_step (plan_id, number, topic_id, topic_name, partition, reviewed_version, origin, target,
    size_bytes, state, why)
SELECT plan_id, number, topic_id, topic_name, partition, reviewed_version, origin::int[], target::int[],
    nullif(size_bytes, -1), 'Waiting', ''
FROM unnest(%(plan_id)s::uuid[], %(number)s::int[], %(topic_id)s::uuid[], %(topic_name)s::text[],
    %(partition)s::int[], %(reviewed_version)s::bigint[], %(origin)s::text[], %(target)s::text[],
    %(size_bytes)s::bigint[])
    AS u(plan_id, number, topic_id, topic_name, partition, reviewed_version, origin, target, size_bytes)"""

READ_PLAN_TO_COMPUTE: Final = "SELECT options, throttle FROM plan WHERE id = %(plan_id)s"

READ_BROKERS_TO_PLAN: Final = """
SELECT coalesce(json_agg(json_build_array(broker_id, rack, NOT fenced AND NOT leaving, cordoned,
    broker_id IN (SELECT broker_id FROM broker_condition WHERE short_since IS NOT NULL UNION
        SELECT log_note.broker_id FROM log_note JOIN partition USING (topic_id, partition)
        WHERE state = 'offline' AND log_note.broker_id = ANY (assigned)))
    ORDER BY broker_id), '[]')::text
FROM broker WHERE broker_epoch > 0"""

READ_NAMES_OF_TOPICS: Final = "SELECT topic_id, name FROM topic"

READ_PARTITIONS_TO_PLAN: Final = """
SELECT coalesce(json_agg(json_build_array(partition.topic_id, partition.partition, assigned, leader, isr,
    partition.version, coalesce(progress.size_bytes, -1), moving.id IS NOT NULL)
    ORDER BY partition.topic_id, partition.partition), '[]')::text
FROM partition LEFT JOIN partition_progress AS progress ON progress.partition_id = partition.id
LEFT JOIN reassignment AS moving ON moving.topic_id = partition.topic_id
    AND moving.partition = partition.partition AND moving.phase IN ('Init', 'InProgress')"""
"""One text, as in controller.statements.READ_PARTITIONS."""

READ_DONE_STEPS: Final = """
SELECT coalesce(json_agg(json_build_array(topic_id, partition, origin, target)), '[]')::text
FROM plan_step WHERE plan_id = %(plan_id)s AND state = 'Done'"""

CHANGE_STEPS: Final = """
UPDATE plan_step SET state = %(state)s, why = %(why)s
WHERE plan_id = %(plan_id)s AND number = ANY (%(numbers)s::int[]) AND state IN ('Waiting', 'Asked')"""

_PACE_IS_OLD: Final = "arrival.recent_at NOT BETWEEN now() - interval '5 seconds' AND now()"
NOTE_ARRIVALS: Final = f"""
INSERT INTO arrival (move_id, broker_id, held_bytes, recent_bytes)
SELECT move.id, u.broker_id, u.held_bytes, u.held_bytes
FROM unnest(%(broker_id)s::int[], %(topic_id)s::uuid[], %(partition)s::int[], %(held_bytes)s::bigint[])
    AS u(broker_id, topic_id, partition, held_bytes)
JOIN reassignment AS move ON move.topic_id = u.topic_id AND move.partition = u.partition
    AND move.phase = 'InProgress' AND u.broker_id = ANY (move.target)
ORDER BY move.id, u.broker_id
ON CONFLICT (move_id, broker_id) DO UPDATE SET held_bytes = EXCLUDED.held_bytes, at = now(),
    grew_at = CASE WHEN EXCLUDED.held_bytes > arrival.held_bytes THEN now()
        ELSE LEAST(arrival.grew_at, now()) END,
    earlier_bytes = CASE WHEN {_PACE_IS_OLD}
        THEN arrival.recent_bytes ELSE arrival.earlier_bytes END,
    earlier_at = CASE WHEN {_PACE_IS_OLD}
        THEN arrival.recent_at ELSE arrival.earlier_at END,
    recent_bytes = CASE WHEN {_PACE_IS_OLD}
        THEN EXCLUDED.held_bytes ELSE arrival.recent_bytes END,
    recent_at = CASE WHEN {_PACE_IS_OLD}
        THEN now() ELSE arrival.recent_at END"""
"""Beside turns: what has ended meanwhile is left out. The pace of the last five to ten seconds is kept; what
stands in the future, as this server's clock was set back, is none.
"""

FORGET_ARRIVALS: Final = """
DELETE FROM arrival USING reassignment AS move
WHERE move.id = arrival.move_id AND move.phase <> 'InProgress'"""
