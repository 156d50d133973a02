"""This room finds copies that will not end: throttles below what producers write, and moves that stand still.

A replica that comes is sent no faster than its move allows, and comes into sync only when it has all that was
written meanwhile. Nothing is decided on it; people are told before they approve, and while it lasts.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection

from controller import move_queries
from controller.copying import PATIENCE, PRODUCED
from muster.kernel.topic_configs import (
    FOLLOWER_THROTTLED_RATE,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_RATE,
    LEADER_THROTTLED_REPLICAS,
)

MOST_AT_A_BROKER: Final = 100
"""Of the moves in progress so many at most are led by a broker, or come to it (controller.core.settings)."""

TAKES, SENDS = "takes", "sends"


@dataclass(frozen=True, slots=True)
class Behind:
    """A broker whose throttle is not above what producers write to the partitions that it copies at a time.

    In bytes a second. `side`: whether it takes the copies or sends them. `fastest`: what is written to the
    one of these partitions that gets most; that alone is too much if `never`.
    """

    side: str
    broker_id: int
    throttle: int
    produced: int
    fastest: int
    partitions: int
    since: datetime | None = None

    @property
    def never(self) -> bool:
        """One partition alone gets more than the throttle lets through: its copy cannot come into sync."""
        return self.fastest >= self.throttle


# Both sides of each copy: the broker that it comes to, and the leader, which sends it.
_SIDES: Final = f"""
    CROSS JOIN LATERAL (VALUES ('{TAKES}', new.broker_id), ('{SENDS}', held.leader)) AS side (side, broker_id)
"""
_OF_PLAN: Final = f"""
    WITH copies AS (
        SELECT side.side, side.broker_id, {PRODUCED} AS produced
        FROM plan_step AS step
        JOIN partition AS held ON held.topic_id = step.topic_id AND held.partition = step.partition
        JOIN partition_progress AS progress ON progress.partition_id = held.id
        CROSS JOIN LATERAL unnest(step.target) AS new(broker_id) {_SIDES}
        WHERE step.plan_id = %(plan)s AND step.state IN ('Waiting', 'Asked')
            AND new.broker_id <> ALL (step.origin) AND side.broker_id > 0),
    ranked AS (
        SELECT *, row_number() OVER (PARTITION BY side, broker_id ORDER BY produced DESC) AS place
        FROM copies WHERE produced > 0)
    SELECT side, broker_id, %(throttle)s::bigint, sum(produced)::bigint, max(produced)::bigint, count(*)::int,
        NULL::timestamptz
    FROM ranked WHERE place <= %(at_a_time)s GROUP BY side, broker_id
    HAVING sum(produced) >= %(throttle)s ORDER BY sum(produced) DESC, broker_id, side DESC
"""


def _configured(key: str, listed: str, side: str) -> str:
    """The rate that Kafka's configs set for the broker, if those of the topic list this replica."""
    words = f"',' || replace(topic.configs ->> '{listed}', ' ', '') || ','"
    return f"""
        SELECT (SELECT NULLIF(configs ->> '{key}', '')::numeric FROM broker_configs
                WHERE broker_configs.broker_id IN (0, side.broker_id) AND configs ? '{key}'
                ORDER BY broker_configs.broker_id DESC LIMIT 1) AS rate
        WHERE side.side = '{side}' AND (topic.configs ->> '{listed}' = '*'
            OR {words} LIKE '%%,' || held.partition || ':' || side.broker_id || ',%%')"""


_UNDER_WAY: Final = f"""
    WITH copies AS (
        SELECT side.side, side.broker_id, held.throttle, configured.rate AS configured, move.started_at,
            {PRODUCED} AS produced
        FROM reassignment AS move
        JOIN partition AS held ON held.topic_id = move.topic_id AND held.partition = move.partition
        JOIN topic ON topic.topic_id = held.topic_id
        JOIN partition_progress AS progress ON progress.partition_id = held.id
        CROSS JOIN LATERAL unnest(held.adding) AS new(broker_id) {_SIDES}
        LEFT JOIN LATERAL (
            {_configured(FOLLOWER_THROTTLED_RATE, FOLLOWER_THROTTLED_REPLICAS, TAKES)} UNION ALL
            {_configured(LEADER_THROTTLED_RATE, LEADER_THROTTLED_REPLICAS, SENDS)}) AS configured ON true
        WHERE move.phase = 'InProgress' AND new.broker_id <> ALL (held.isr) AND side.broker_id > 0),
    held_by AS (
        SELECT side, broker_id, throttle AS rate, produced, started_at FROM copies WHERE throttle > 0
        UNION ALL
        SELECT side, broker_id, configured, produced, started_at FROM copies WHERE configured IS NOT NULL)
    SELECT side, broker_id, rate::bigint, sum(produced)::bigint, max(produced)::bigint, count(*)::int,
        min(started_at)
    FROM held_by WHERE produced > 0 GROUP BY side, broker_id, rate
    HAVING sum(produced) >= rate ORDER BY sum(produced) DESC, broker_id, side DESC
"""


_STILL: Final = f"""
    SELECT move.topic_name, move.partition, new.broker_id, held.leader,
        arrival.grew_at AS since
    FROM reassignment AS move
    JOIN partition AS held ON held.topic_id = move.topic_id AND held.partition = move.partition
    CROSS JOIN LATERAL unnest(held.adding) AS new(broker_id)
    JOIN broker ON broker.broker_id = new.broker_id AND NOT broker.fenced
    JOIN partition_progress AS progress ON progress.partition_id = held.id
    JOIN arrival ON arrival.move_id = move.id AND arrival.broker_id = new.broker_id
    WHERE move.phase = 'InProgress' AND held.leader > 0 AND new.broker_id <> ALL (held.isr)
        AND arrival.grew_at < now() - GREATEST(%(still)s, {PATIENCE}) * interval '1 second'
        AND arrival.held_bytes < progress.size_bytes
        AND (%(plan)s::uuid IS NULL OR move.plan_id = %(plan)s)
    ORDER BY since, move.topic_name, move.partition, new.broker_id LIMIT %(limit)s
"""
STILL_AFTER_S: Final = 60


@dataclass(frozen=True, slots=True)
class StandsStill:
    """A live broker to which nothing comes of a partition, though its leader lives; `since` the last byte."""

    topic_name: str
    partition: int
    broker_id: int
    leader: int
    since: datetime

    @property
    def name(self) -> str:
        """`flights-5`."""
        return f"{self.topic_name}-{self.partition}"


def standing_still(limit: int, plan_id: UUID | None = None) -> list[StandsStill]:
    """New replicas of a plan's moves under way, or of all, of which no byte came for STILL_AFTER_S, or longer
    where a throttle lets others have their turns for so long.
    """
    with connection.cursor() as cursor:
        cursor.execute(_STILL, {"still": STILL_AFTER_S, "limit": limit, "plan": plan_id})
        return [StandsStill(*row) for row in cursor.fetchall()]


def of_row(row: move_queries.PlanRow) -> list[Behind]:
    """The same of a plan as it stands; of one that is over nothing is left."""
    return [] if row.is_over else of_plan(row.id, row.throttle, row.at_a_time)


def of_plan(plan_id: UUID, throttle: int, at_a_time: int) -> list[Behind]:
    """Brokers that could not catch up if what is left of a plan ran at this rate; most is written first."""
    if not throttle:
        return []
    most = min(at_a_time, MOST_AT_A_BROKER)
    return _read(_OF_PLAN, {"plan": plan_id, "throttle": throttle, "at_a_time": most})


def under_way() -> list[Behind]:
    """Brokers that cannot catch up with what is copied now, by moves' own rates or by Kafka's configs."""
    return _read(_UNDER_WAY, {})


def told(found: list[Behind]) -> list[dict[str, Any]]:
    """As REST tells it."""
    return [
        {
            "broker": one.broker_id,
            "side": one.side,
            "throttle": one.throttle,
            "produced": one.produced,
            "partitions": one.partitions,
            "never": one.never,
        }
        for one in found
    ]


def _read(statement: str, values: dict[str, Any]) -> list[Behind]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return [Behind(*row) for row in cursor.fetchall()]
