"""This room holds the SQL that judges partitions: who of them is in sync, what is in trouble, since when."""

from muster.kernel.topic_configs import MIN_INSYNC_REPLICAS
from muster.messages.link.rows import EVERY_BROKER, NO_LEADER

DEAD = """
    (SELECT COALESCE(array_agg(broker_id), '{}') FROM broker WHERE broker_id <> ALL (%(live)s::int[]))::int[]
"""
"""Who has no session: of a thousand brokers few, and each partition is compared with them."""

SETTLED = "(cardinality(assigned) - cardinality(adding))"
"""How many replicas a partition is to have in sync: one that a reassignment is still adding owes nothing."""

WITH_LAGS = """
    (SELECT partition.*, lag_note.lagging, lag_note.since AS lagging_since
     FROM partition LEFT JOIN lag_note ON lag_note.topic_id = partition.topic_id
         AND lag_note.partition = partition.partition AND lag_note.broker_id = partition.leader
         AND lag_note.lagging && partition.isr) AS partition
"""
"""Partitions, each with who keeps its leader from accepting acks=all, as it says; mostly NULL, for nobody.

Where none of them is in the ISR any more, the leader has not looked since.
"""

LAGGING = "COALESCE(lagging, '{}')"
IN_SYNC = f"""
    CASE WHEN isr && {DEAD} OR lagging IS NOT NULL
    THEN (SELECT count(*) FROM unnest(isr) AS member
          WHERE member <> ALL ({DEAD}) AND member <> ALL ({LAGGING}))
    ELSE cardinality(isr) END
"""
COPIES = f"""
    CASE WHEN isr && {DEAD} THEN (SELECT count(*) FROM unnest(isr) AS member WHERE member <> ALL ({DEAD}))
    ELSE cardinality(isr) END
"""
"""How many live brokers hold all that is committed: who lags in the ISR does, too, and may be elected."""

UNSETTLED = f"(leader = {NO_LEADER} OR {IN_SYNC} < {SETTLED})"
"""Of rows that are not judged yet: nothing else has any of the TROUBLES, and mostly it is none."""

# Pages count as in sync whoever is in the ISR, has a session, and keeps up where the leader needs it for
# acks=all (design chapter 7): the row keeps the last min.insync.replicas members even when they are dead, or
# do not reach their leader. `floor` is that of `muster.kernel.topic_configs`; `lost_at` is when each member
# of the ISR that does not count was lost, in order.
JUDGED = f"""
           {IN_SYNC} AS in_sync, {COPIES} AS copies,
           LEAST(COALESCE(substring(topic.configs ->> '{MIN_INSYNC_REPLICAS}' FROM '^[0-9]{{1,9}}$')::int,
                          substring((SELECT configs ->> '{MIN_INSYNC_REPLICAS}' FROM broker_configs
                                     WHERE broker_id = {EVERY_BROKER}) FROM '^[0-9]{{1,9}}$')::int,
                          %(min_insync_default)s),
                 cardinality(partition.assigned) - cardinality(partition.adding))
               AS floor,
           CASE WHEN partition.isr && {DEAD} OR lagging IS NOT NULL THEN
               ARRAY(SELECT CASE WHEN broker.broker_id = ANY ({DEAD}) THEN broker.changed_at
                                 ELSE lagging_since END
                     FROM broker WHERE broker.broker_id = ANY (partition.isr)
                     AND (broker.broker_id = ANY ({DEAD}) OR broker.broker_id = ANY ({LAGGING})) ORDER BY 1)
           ELSE '{{}}'::timestamptz[] END AS lost_at
"""
STATED = f"""
    SELECT partition.id, topic.name AS topic_name, topic.topic_id, partition.partition, partition.assigned,
           partition.leader, partition.leader_epoch, partition.isr, partition.version, partition.changed_at,
           partition.adding, partition.removing, partition.unproven, {LAGGING} AS lagging,
           {JUDGED}
    FROM {WITH_LAGS} JOIN topic ON topic.topic_id = partition.topic_id
"""
TROUBLES = {
    "offline": f"leader = {NO_LEADER}",
    "under-min-isr": f"leader <> {NO_LEADER} AND in_sync < floor",
    "one-copy": f"leader <> {NO_LEADER} AND copies = 1 AND {SETTLED} > 1",
    "attention": f"(in_sync < {SETTLED} OR leader = {NO_LEADER})",
}
"""What may be asked of partitions by name, in SQL over the stated rows."""

SINCES = {
    "offline": "changed_at",
    "under-min-isr": "GREATEST(changed_at, lost_at[cardinality(isr) - floor + 1])",
    "one-copy": "GREATEST(changed_at, lost_at[cardinality(isr) - 1])",
    "attention": f"""CASE WHEN leader = {NO_LEADER} THEN changed_at
                     ELSE GREATEST(changed_at, lost_at[cardinality(isr) - {SETTLED} + 1]) END""",
}
"""Since when: the row was changed, or so many members of its ISR were lost, or began to lag, that the trouble
began.

An element that an array does not have is NULL, and GREATEST leaves it out.
"""


SINCE_TROUBLED = f"CASE WHEN {TROUBLES['attention']} THEN {SINCES['attention']} ELSE changed_at END"


def alike(asked: str = "") -> str:
    """The partitions `asked` for, in SQL; those of a topic on the same brokers, led alike, are one row.

    Ten thousand partitions are a few such rows, and each is judged once. Of `held` partitions the row has
    when the first one changed.
    """
    return f"""
        SELECT topic.name AS topic_name, partition.*, {JUDGED}
        FROM (SELECT topic_id, assigned, adding, leader, isr, lagging, count(*)::int AS held,
                     min(changed_at) AS changed_at, min(GREATEST(changed_at, lagging_since)) AS lagging_since
              FROM {WITH_LAGS} {asked} GROUP BY 1, 2, 3, 4, 5, 6) AS partition
        JOIN topic ON topic.topic_id = partition.topic_id
    """


def replicas_by_broker(of_partitions: str = "", of_replicas: str = "") -> str:
    """What each broker holds, leads, is out of sync with, and its bytes, in SQL; of some, or of everybody."""
    return f"""
        SELECT replica, sum(held)::int, COALESCE(sum(held) FILTER (WHERE leader = replica), 0)::int,
               COALESCE(sum(held) FILTER (WHERE (replica <> ALL (isr) OR replica = ANY ({DEAD})
                                                 OR replica = ANY ({LAGGING}))
                                                AND replica <> ALL (adding)), 0)::int,
               sum(size)::bigint
        FROM (SELECT assigned, adding, leader, isr, lagging, count(*) AS held, sum(size_bytes) AS size
              FROM {WITH_LAGS} LEFT JOIN partition_progress ON partition_progress.partition_id = partition.id
              {of_partitions} GROUP BY 1, 2, 3, 4, 5) AS alike,
             unnest(assigned) AS replica
        {of_replicas} GROUP BY replica
    """
