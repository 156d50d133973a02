"""This room reads how brokers are, as live ones said of themselves: logs in trouble, and how many."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from django.db import connection

from access.scoped_rows import covers, values_of
from controller.models import LOG_STATES, NO_LEADER, Broker, BrokerCondition, Partition
from muster.kernel.client_quotas import PRODUCER_BYTE_RATE
from muster.kernel.scopes import EVERYTHING, Scope
from muster.messages.link.condition import ThrottledClient

OFFLINE, DAMAGED, MENDED, LEADERLESS = LOG_STATES
IN_TROUBLE: Final = (OFFLINE, DAMAGED)
"""States of a log that need a person."""

TOLD: Final = (OFFLINE, DAMAGED, MENDED)
"""States that are told of a log; a leaderless partition is told as such."""

_LOGS = """
    SELECT log_note.broker_id, topic.name, log_note.topic_id, log_note.partition, log_note.state,
           log_note.why, log_note.end_offset, log_note.since, partition.leader, partition.id
    FROM log_note
    JOIN broker ON broker.broker_id = log_note.broker_id AND NOT broker.fenced
    JOIN partition ON partition.topic_id = log_note.topic_id AND partition.partition = log_note.partition
        AND log_note.broker_id = ANY (partition.assigned)
    JOIN topic ON topic.topic_id = log_note.topic_id
"""
_COUNTS = """
    SELECT log_note.broker_id, count(*) FILTER (WHERE state = 'offline')::int,
           count(*) FILTER (WHERE state = 'damaged')::int
    FROM log_note
    JOIN broker ON broker.broker_id = log_note.broker_id AND NOT broker.fenced
    JOIN partition ON partition.topic_id = log_note.topic_id AND partition.partition = log_note.partition
        AND log_note.broker_id = ANY (partition.assigned)
    WHERE state IN ('offline', 'damaged') GROUP BY 1
"""
_LAGGING = """
    SELECT partition.id, array_agg(member ORDER BY member)
    FROM partition
    JOIN lag_note ON lag_note.topic_id = partition.topic_id AND lag_note.partition = partition.partition
        AND lag_note.broker_id = partition.leader, unnest(lag_note.lagging) AS member
    WHERE partition.id = ANY (%(ids)s) AND member = ANY (partition.isr) GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class LogRow:
    """What one live broker said of its log of one partition."""

    broker_id: int
    topic_name: str
    topic_id: Any
    partition: int
    state: str
    why: str
    end_offset: int | None
    since: datetime
    leader: int
    partition_id: int

    @property
    def name(self) -> str:
        """`flights-5`."""
        return f"{self.topic_name}-{self.partition}"

    @property
    def in_trouble(self) -> bool:
        return self.state in IN_TROUBLE

    @property
    def words(self) -> str:
        """What its state means here."""
        if self.state == OFFLINE:
            return "offline"
        if self.state == MENDED:
            return "was damaged, copied again"
        if self.leader == self.broker_id:
            return "damaged, and leads with what is left"
        return "damaged" if self.leader == NO_LEADER else "damaged, copies again"


@dataclass(frozen=True, slots=True)
class Holder:
    """One replica of a partition that nobody leads: what it holds, what it lacks of what was committed.

    `log` None: its broker is away, or has not said yet. `lacks` None: nobody can tell.
    """

    broker_id: int
    live: bool
    in_isr: bool
    log: LogRow | None
    lacks: int | None

    @property
    def end_offset(self) -> int | None:
        return self.log.end_offset if self.log else None

    @property
    def may_lead(self) -> bool:
        return self.live and (self.log is None or self.log.state != OFFLINE)


def holders(row: Partition, high_watermark: int | None) -> list[Holder]:
    """Who holds how much of a partition, in the order in which they stand."""
    live = set(Broker.objects.filter(broker_id__in=row.assigned, fenced=False).values_list("pk", flat=True))
    logs = {one.broker_id: one for one in of_partitions([row.id], LOG_STATES).get(row.id, ())}
    found = []
    for broker in row.assigned:
        log = logs.get(broker)
        end = log.end_offset if log else None
        known = end is not None and high_watermark is not None
        lacks = max(0, high_watermark - end) if known else None  # type: ignore[operator]
        found.append(Holder(broker, broker in live, broker in row.isr, log, lacks))
    return found


@dataclass(frozen=True, slots=True)
class ThrottledRow:
    """Whoever shares a quota and is made to wait by a broker, time and again, since then."""

    told: ThrottledClient
    since: datetime

    @property
    def does(self) -> str:
        """What it would do."""
        return "produce" if self.told.quota == PRODUCER_BYTE_RATE else "fetch"


def throttled(condition: BrokerCondition | None) -> list[ThrottledRow]:
    """Who is made to wait by a broker, the longest wait first, as it said last."""
    if condition is None:
        return []
    told = msgspec.convert(condition.throttled, tuple[ThrottledClient, ...])
    return [ThrottledRow(one, condition.at - timedelta(milliseconds=one.age_ms)) for one in told]


@dataclass(frozen=True, slots=True)
class Place:
    """Behind which log a list goes on."""

    topic: str
    partition: int
    broker_id: int


def counts() -> dict[int, tuple[int, int]]:
    """Of each live broker that has any: how many of its logs are offline, and how many damaged."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS)
        return {broker: (offline, damaged) for broker, offline, damaged in cursor.fetchall()}


def logs(
    *,
    states: Sequence[str] = TOLD,
    broker_id: int | None = None,
    topic: str | None = None,
    scope: Scope = EVERYTHING,
    after: Place | None = None,
    limit: int,
) -> list[LogRow]:
    """Logs in these states by topic, partition and broker; of topics that `scope` covers."""
    asked = ["log_note.state = ANY (%(states)s)", covers("topics", "topic.name")]
    values: dict[str, Any] = {"states": list(states), "limit": limit}
    values |= values_of("topics", scope)
    if broker_id is not None:
        asked.append("log_note.broker_id = %(broker)s")
        values["broker"] = broker_id
    if topic is not None:
        asked.append("topic.name = %(topic)s")
        values["topic"] = topic
    if after is not None:
        asked.append(
            "(topic.name, log_note.partition, log_note.broker_id) > (%(name)s, %(number)s, %(last)s)"
        )
        values |= {"name": after.topic, "number": after.partition, "last": after.broker_id}
    order = "topic.name, log_note.partition, log_note.broker_id LIMIT %(limit)s"
    return _read(f"{_LOGS} WHERE {' AND '.join(asked)} ORDER BY {order}", values)


def of_partitions(partition_ids: Sequence[int], states: Sequence[str] = TOLD) -> dict[int, list[LogRow]]:
    """What is told of the logs of these partitions, by the ids of their rows."""
    statement = f"""{_LOGS} WHERE partition.id = ANY (%(ids)s) AND log_note.state = ANY (%(states)s)
                    ORDER BY log_note.broker_id"""
    found: dict[int, list[LogRow]] = {}
    for row in (
        _read(statement, {"ids": list(partition_ids), "states": list(states)}) if partition_ids else ()
    ):
        found.setdefault(row.partition_id, []).append(row)
    return found


def lagging(partition_ids: Sequence[int]) -> dict[int, list[int]]:
    """Members of the ISR that lag so that the leader refuses acks=all, as it says, by the ids of the rows."""
    if not partition_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_LAGGING, {"ids": list(partition_ids)})
        return dict(cursor.fetchall())


def _read(statement: str, values: dict[str, Any]) -> list[LogRow]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return [LogRow(*row) for row in cursor.fetchall()]
