"""This room reads consumer groups for people; each question is one statement, also for 10,000 groups."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from django.db import connection

from access.scoped_rows import covers, values_of
from controller.models import NO_LEADER
from groups.core.consumer_protocol import CONSUMER
from groups.models import ConsumerGroup, Phase, Protocol
from muster.kernel.scopes import EVERYTHING, Scope

# What leaders of classic groups gave their members, one row for each partition that exists; nothing is
# decided on it. A leader may give a partition to two members.
_OBSERVED = """
    SELECT observed.group_name, observed.member_id AS owner, topic.topic_id, topic.name AS topic_name,
           number AS partition
    FROM observed_assignment AS observed CROSS JOIN unnest(observed.partitions) AS number
    JOIN topic ON topic.name = observed.topic_name
"""

# Of other topics nobody learns by what is found.
_TOPIC_IS_COVERED = covers("topics", "topic.name")

# A leader may assign what it calls as it likes: that there is such a topic is told to whoever may know of it.
_OBSERVED_AND_COVERED = f"{_OBSERVED} WHERE {_TOPIC_IS_COVERED}"

# Lag of a group: what is known, how many partitions are not known, when it last committed. A partition is not
# known if it has an owner and no committed offset, or if nobody said how far its log got.
_STANDING = f"""
    LEFT JOIN LATERAL (
        SELECT count(*) AS members, COALESCE(max(session_timeout_ms), 0) AS session_timeout_ms
        FROM (SELECT session_timeout_ms FROM group_member WHERE group_name = grouped.name UNION ALL
              SELECT session_timeout_ms FROM classic_member WHERE group_name = grouped.name) AS either
    ) AS members ON true
    LEFT JOIN LATERAL (
        SELECT count(*) AS partitions,
               sum(GREATEST(progress.high_watermark - touched.committed_offset, 0))::bigint AS lag,
               count(*) FILTER (WHERE progress.high_watermark IS NULL OR touched.committed_offset IS NULL
                                OR partition.leader = -1) AS unknown,
               max(touched.committed_at) AS committed_at,
               string_agg(DISTINCT touched.topic_name, ', ') AS topics
        FROM (
            SELECT topic_id, partition, committed.committed_offset, committed.committed_at,
                   COALESCE(committed.topic_name, owned.topic_name) AS topic_name
            FROM (SELECT * FROM committed_offset WHERE group_name = grouped.name) AS committed
            FULL JOIN (
                SELECT topic_id, partition, topic_name FROM partition_ownership
                WHERE group_name = grouped.name AND copy = 0 UNION ALL
                SELECT DISTINCT topic_id, partition, topic_name FROM ({_OBSERVED}) AS observed
                WHERE group_name = grouped.name
            ) AS owned USING (topic_id, partition)
        ) AS touched
        LEFT JOIN partition
               ON partition.topic_id = touched.topic_id AND partition.partition = touched.partition
        LEFT JOIN partition_progress AS progress ON progress.partition_id = partition.id
    ) AS standing ON true
"""
_STANDING_FOR_SOME = _STANDING.replace(_OBSERVED, _OBSERVED_AND_COVERED)

_GROUP_COLUMNS = """
    grouped.name, grouped.phase, grouped.protocol, grouped.protocol_type, grouped.generation,
    grouped.version, grouped.shard, grouped.error, grouped.created_at, grouped.changed_at,
    members.members, members.session_timeout_ms,
    standing.partitions, standing.lag, standing.unknown, standing.committed_at, standing.topics
"""

# The text is looked for once a topic, and not in each of the 240,000 rows that repeat the topics' names.
# An array, because the planner takes a joined table for a common match and makes a join of all rows.
_TOPICS_THAT_CONTAIN = f"""
    topic_id = ANY (ARRAY(SELECT topic_id FROM topic WHERE strpos(lower(name), lower(%(contains)s)) > 0
                          AND {_TOPIC_IS_COVERED}))
"""

_MATCHES = f"""
    {covers("groups", "grouped.name")}
    AND (%(contains)s = '' OR strpos(lower(grouped.name), lower(%(contains)s)) > 0 OR EXISTS (
        SELECT FROM committed_offset WHERE group_name = grouped.name AND {_TOPICS_THAT_CONTAIN})
        OR EXISTS (
        SELECT FROM partition_ownership WHERE group_name = grouped.name AND {_TOPICS_THAT_CONTAIN})
        OR EXISTS (
        SELECT FROM observed_assignment WHERE group_name = grouped.name AND topic_name = ANY (ARRAY(
            SELECT name FROM topic WHERE strpos(lower(name), lower(%(contains)s)) > 0
            AND {_TOPIC_IS_COVERED}))))
    AND (%(protocol)s = '' OR grouped.protocol = %(protocol)s)
    AND (%(phases)s::text[] IS NULL OR grouped.phase = ANY (%(phases)s))
    AND (%(topic)s = '' OR EXISTS (
        SELECT FROM committed_offset WHERE group_name = grouped.name AND topic_name = %(topic)s) OR EXISTS (
        SELECT FROM partition_ownership WHERE group_name = grouped.name AND topic_name = %(topic)s)
        OR EXISTS (
        SELECT FROM observed_assignment WHERE group_name = grouped.name AND topic_name = %(topic)s))
"""

Row = TypeVar("Row", bound=NamedTuple)

_LOOKED_AT = 10
"""Partitions that wait are looked at ten times as many as are told: some of them have no owner."""

_PHASES_IN_ORDER = (Phase.STABLE, Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE, Phase.EMPTY)

# Every committed offset beside the end of its log. A left join, and never a condition that would make it an
# inner one: the planner takes two joined columns for a rare match, and then looks up each of 120,000 offsets.
_BESIDE_ENDS = """
    committed_offset AS committed LEFT JOIN (
        SELECT topic_id, partition, leader, high_watermark,
               CASE WHEN at <= now() - interval '1 minute' THEN high_watermark
                    WHEN recent_at <= now() - interval '1 minute' THEN recent_high_watermark
                    WHEN earlier_at <= now() - interval '1 minute' THEN earlier_high_watermark
               END AS minute_old
        FROM partition JOIN partition_progress AS progress ON progress.partition_id = partition.id
    ) AS ends USING (topic_id, partition)
"""

# The lag of every group in one pass; only where a list is ordered by it.
_LAG_OF_ALL = f"""
    SELECT committed.group_name, sum(GREATEST(ends.high_watermark - committed.committed_offset, 0))
               FILTER (WHERE ends.high_watermark IS NOT NULL)::bigint AS lag
    FROM {_BESIDE_ENDS} GROUP BY committed.group_name
"""


class GroupRow(NamedTuple):
    """One group of a list with its standing; `lag` is None when nothing of it is known."""

    name: str
    phase: str
    protocol: str
    protocol_type: str
    generation: int
    version: int
    shard: int
    error: str
    created_at: datetime
    changed_at: datetime
    members: int
    session_timeout_ms: int
    partitions: int
    lag: int | None
    unknown: int
    committed_at: datetime | None
    topics: str | None

    @property
    def abandoned(self) -> bool:
        """Somebody stopped it and it falls behind: said in words, without colour."""
        return self.phase == Phase.EMPTY and bool(self.lag)

    @property
    def kind(self) -> str:
        """`native`, `classic` for Kafka's consumers, `classic connect` for others, or `offsets only`."""
        return kind_of(self.protocol, self.protocol_type)


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """What a list of groups is asked for; empty means everything.

    `groups` and `topics` are what whoever asks may know of.
    """

    contains: str = ""
    phases: tuple[str, ...] = ()
    topic: str = ""
    lag_over: int | None = None
    protocol: str = ""
    groups: Scope = EVERYTHING
    topics: Scope = EVERYTHING

    @property
    def by_lag_alone(self) -> bool:
        """True if nothing but the lag is asked about."""
        bounded = not (self.groups.is_everything and self.topics.is_everything)
        return not (self.contains or self.phases or self.topic or self.protocol or bounded)

    @property
    def values(self) -> dict[str, Any]:
        return {
            "contains": self.contains,
            "phases": list(self.phases) or None,
            "topic": self.topic,
            "lag_over": self.lag_over,
            "protocol": self.protocol,
            **values_of("groups", self.groups),
            **values_of("topics", self.topics),
        }


class PartitionStanding(NamedTuple):
    """One partition as a group sees it: who owns it, what is committed, how far the log got.

    Times are in seconds since 1970: a page shows the dates of a hundred of ten thousand.
    """

    topic_id: Any
    topic_name: str
    partition: int
    owner: str | None
    state: str | None
    since_generation: int | None
    standbys: Sequence[str] | None
    committed: int | None
    version: int | None
    committed_s: float | None
    leader: int | None
    leader_epoch: int | None
    isr: Sequence[int] | None
    assigned: Sequence[int] | None
    high_watermark: int | None
    progress_s: float | None

    @property
    def name(self) -> str:
        """`flights-5`."""
        return f"{self.topic_name}-{self.partition}"

    @property
    def committed_at(self) -> datetime | None:
        """When the group last committed it."""
        return None if self.committed_s is None else datetime.fromtimestamp(self.committed_s, UTC)

    @property
    def offline(self) -> bool:
        return self.leader == NO_LEADER

    @property
    def lag(self) -> int | None:
        """Records between the committed offset and the end; None: not known."""
        if self.committed is None or self.high_watermark is None or self.offline:
            return None
        return max(0, self.high_watermark - self.committed)


class StalledPartition(NamedTuple):
    """Records wait, and the owner has not moved the committed offset for a while.

    `committed` is None if it has committed nothing yet; `since` is when the offset last moved, or when the
    group last changed.
    """

    group: str
    topic_name: str
    partition: int
    owner: str
    committed: int | None
    high_watermark: int
    since: datetime

    @property
    def name(self) -> str:
        return f"{self.topic_name}-{self.partition}"

    @property
    def lag(self) -> int | None:
        """Records that wait; None: nothing is committed, so nobody knows where it reads."""
        return None if self.committed is None else self.high_watermark - self.committed


def kind_of(protocol: str, protocol_type: str) -> str:
    """The world of a group in one or two words; a simple group is one of which only offsets are known."""
    if protocol == Protocol.NATIVE or protocol_type == CONSUMER:
        return protocol
    return f"{protocol} {protocol_type}" if protocol_type else "offsets only"


def groups_by_name(asked: GroupFilter, after: str, limit: int) -> list[GroupRow]:
    """Groups whose name comes after `after`, in the order of their names: stable while rows come and go."""
    lags = "" if asked.lag_over is None else f"WITH lags AS MATERIALIZED ({_LAG_OF_ALL})"
    above = (
        ""
        if asked.lag_over is None
        else "AND grouped.name IN (SELECT group_name FROM lags WHERE lag >= %(lag_over)s)"
    )
    statement = f"""
        {lags} SELECT {_GROUP_COLUMNS}
        FROM (SELECT * FROM consumer_group AS grouped WHERE grouped.name > %(after)s AND {_MATCHES} {above}
              ORDER BY grouped.name LIMIT %(limit)s) AS grouped
        {_STANDING if asked.topics.is_everything else _STANDING_FOR_SOME}
        ORDER BY grouped.name
    """
    return rows_of(GroupRow, statement, {**asked.values, "after": after, "limit": limit})


def lag_order() -> list[tuple[int, str]]:
    """Every group as (−lag, name), largest known lag first, then by name; −1 stands for a lag not known."""
    statement = f"""
        WITH lags AS MATERIALIZED ({_LAG_OF_ALL})
        SELECT -COALESCE(lags.lag, -1), grouped.name
        FROM consumer_group AS grouped LEFT JOIN lags ON lags.group_name = grouped.name
    """
    return sorted(_read(statement, {}))


def groups_named(names: Sequence[str]) -> list[GroupRow]:
    """The groups of these names, in the order of their names."""
    statement = f"""
        SELECT {_GROUP_COLUMNS}
        FROM (SELECT * FROM consumer_group AS grouped WHERE grouped.name = ANY (%(names)s)) AS grouped
        {_STANDING}
        ORDER BY grouped.name
    """
    return rows_of(GroupRow, statement, {"names": list(names)})


def names_of(asked: GroupFilter) -> list[str]:
    """The names of the groups that fit the filter, its lag left aside."""
    statement = f"SELECT grouped.name FROM consumer_group AS grouped WHERE {_MATCHES}"
    return [name for (name,) in _read(statement, asked.values)]


def topic_ids(names: Iterable[str]) -> dict[str, Any]:
    """The ids of those of these topics that exist."""
    return dict(
        _read("SELECT name, topic_id FROM topic WHERE name = ANY (%(names)s)", {"names": list(names)})
    )


def count_by_phase() -> dict[str, int]:
    """How many groups are in each phase."""
    counted = dict(_read("SELECT phase, count(*) FROM consumer_group GROUP BY 1", {}))
    return {str(phase): counted.get(phase, 0) for phase in _PHASES_IN_ORDER}


def partitions_of_group(name: str) -> list[PartitionStanding]:
    """Every partition of every topic that the group owns or has committed, owned or not, in order."""
    statement = f"""
        WITH owned AS MATERIALIZED (
                SELECT topic_id, topic_name, partition, copy, owner, state, since_generation
                FROM partition_ownership WHERE group_name = %(name)s AND copy = 0 UNION ALL
                SELECT topic_id, topic_name, partition,
                       row_number() OVER (PARTITION BY topic_id, partition ORDER BY owner) - 1, owner,
                       'running', NULL
                FROM ({_OBSERVED}) AS observed WHERE group_name = %(name)s),
             committed AS MATERIALIZED (SELECT * FROM committed_offset WHERE group_name = %(name)s),
             standbys AS MATERIALIZED (
                SELECT topic_id, partition, array_agg(owner ORDER BY owner) AS standbys
                FROM partition_ownership WHERE group_name = %(name)s AND copy > 0 GROUP BY 1, 2),
             stated AS (
                SELECT topic_id, topic.name, stated.partition, leader, leader_epoch, isr, assigned,
                       high_watermark, extract(epoch FROM progress.at)::float8 AS progress_s
                FROM partition AS stated JOIN topic USING (topic_id)
                LEFT JOIN partition_progress AS progress ON progress.partition_id = stated.id
                WHERE topic_id = ANY (ARRAY(SELECT topic_id FROM owned UNION SELECT topic_id FROM committed)))
        SELECT topic_id, COALESCE(owned.topic_name, committed.topic_name, stated.name) AS topic_name,
               partition, owned.owner, owned.state, owned.since_generation, standbys.standbys,
               committed.committed_offset AS committed, committed.version,
               extract(epoch FROM committed.committed_at)::float8 AS committed_s,
               stated.leader, stated.leader_epoch, stated.isr, stated.assigned,
               stated.high_watermark, stated.progress_s
        FROM stated FULL JOIN owned USING (topic_id, partition)
        FULL JOIN committed USING (topic_id, partition)
        LEFT JOIN standbys USING (topic_id, partition)
        ORDER BY 2, 3, owned.copy
    """
    return rows_of(PartitionStanding, statement, {"name": name})


def stalled_partitions(limit: int) -> list[StalledPartition]:
    """Owned partitions whose offset has not moved for a minute although records waited all that time.

    That the end is ahead says nothing: a record may have come just now. It counts where the log ended a
    minute ago, as far as the controller noted it (`controller.statements`). What moved in the future did so
    before this server's clock was set back.
    """
    statement = f"""
        WITH late AS MATERIALIZED (
            SELECT committed.group_name, committed.topic_name, topic_id, partition,
                   committed.committed_offset, committed.moved_at, ends.high_watermark
            FROM {_BESIDE_ENDS}
            WHERE committed.moved_at NOT BETWEEN now() - interval '1 minute' AND now() + interval '1 minute'
              AND COALESCE(ends.minute_old, -1) > committed.committed_offset
              AND COALESCE(ends.high_watermark, -1) > committed.committed_offset
              AND COALESCE(ends.leader, -1) <> -1
        ), waiting AS MATERIALIZED (
            SELECT * FROM late WHERE group_name IN (
                SELECT group_name FROM group_member UNION ALL SELECT group_name FROM classic_member)
            ORDER BY moved_at LIMIT %(looked_at)s
        )
        SELECT waiting.group_name AS "group", waiting.topic_name, waiting.partition, owned.owner,
               waiting.committed_offset AS committed, waiting.high_watermark, waiting.moved_at AS since
        FROM waiting CROSS JOIN LATERAL (
            SELECT owner FROM partition_ownership AS native
            WHERE native.group_name = waiting.group_name AND native.topic_id = waiting.topic_id
              AND native.partition = waiting.partition AND native.copy = 0 UNION ALL
            (SELECT member_id FROM observed_assignment AS observed
             WHERE observed.group_name = waiting.group_name AND observed.topic_name = waiting.topic_name
               AND waiting.partition = ANY (observed.partitions) ORDER BY member_id LIMIT 1)
        ) AS owned
        ORDER BY waiting.moved_at, 1, 2, 3 LIMIT %(limit)s
    """
    values = {"limit": limit, "looked_at": limit * _LOOKED_AT}
    return rows_of(StalledPartition, statement, values)


def partitions_never_committed(limit: int) -> list[StalledPartition]:
    """Partitions that grew although their owner, the same for two minutes, has committed nothing yet.

    Native groups alone: whoever speaks Kafka's protocol may keep offsets in a place of its own. Whose group
    changed in the future did so before this server's clock was set back: where the log grows now, it is told.
    """
    statement = """
        WITH grew AS MATERIALIZED (
            SELECT topic_id, partition, high_watermark, earlier_at
            FROM partition JOIN partition_progress AS progress ON progress.partition_id = partition.id
            WHERE progress.recent_high_watermark > progress.earlier_high_watermark AND leader <> -1
        )
        SELECT owned.group_name AS "group", owned.topic_name, owned.partition, owned.owner, NULL AS committed,
               grew.high_watermark, grouped.changed_at AS since
        FROM grew JOIN partition_ownership AS owned USING (topic_id, partition)
        JOIN consumer_group AS grouped ON grouped.name = owned.group_name
        LEFT JOIN committed_offset AS committed ON committed.group_name = owned.group_name
              AND committed.topic_id = owned.topic_id AND committed.partition = owned.partition
        WHERE committed.group_name IS NULL AND owned.copy = 0
          AND (grouped.changed_at < LEAST(grew.earlier_at, now() - interval '2 minutes')
               OR grouped.changed_at > now() + interval '1 minute'
               AND grew.earlier_at BETWEEN now() - interval '10 minutes' AND now())
        ORDER BY grouped.changed_at, 1, 2, 3 LIMIT %(limit)s
    """
    return rows_of(StalledPartition, statement, {"limit": limit})


def groups_that_wait_for(partition_ids: Sequence[int]) -> dict[str, list[str]]:
    """Groups with members that own one of these partitions, with the names of what they wait for."""
    statement = """
        SELECT owned.group_name, owned.topic_name || '-' || owned.partition
        FROM partition JOIN partition_ownership AS owned
          ON owned.topic_id = partition.topic_id AND owned.partition = partition.partition
        WHERE partition.id = ANY (%(ids)s) AND owned.copy = 0 UNION
        SELECT observed.group_name, topic.name || '-' || partition.partition
        FROM partition JOIN topic USING (topic_id) JOIN observed_assignment AS observed
          ON observed.topic_name = topic.name AND partition.partition = ANY (observed.partitions)
        WHERE partition.id = ANY (%(ids)s) ORDER BY 1, 2
    """
    waits: dict[str, list[str]] = {}
    for group, name in _read(statement, {"ids": list(partition_ids)}):
        waits.setdefault(group, []).append(name)
    return waits


def unsettled_groups(limit: int) -> list[tuple[ConsumerGroup, int]]:
    """Groups with an error, or longer in a phase of a rebalance than they may be (ms).

    That is the largest session timeout of a native group, and the largest rebalance timeout of a classic one.
    A phase that began in the future began before this server's clock was set back.
    """
    statement = """
        SELECT grouped.name, COALESCE(max(member.session_timeout_ms), 0)
        FROM consumer_group AS grouped LEFT JOIN (
            SELECT group_name, session_timeout_ms FROM group_member UNION ALL
            SELECT group_name, GREATEST(session_timeout_ms, rebalance_timeout_ms) FROM classic_member
        ) AS member ON member.group_name = grouped.name
        WHERE grouped.error <> '' OR grouped.phase IN ('PreparingRebalance', 'CompletingRebalance')
        GROUP BY grouped.name, grouped.error, grouped.phase_entered_at
        HAVING grouped.error <> ''
            OR grouped.phase_entered_at < now() - max(member.session_timeout_ms) * interval '1 millisecond'
            OR grouped.phase_entered_at > now() + interval '1 minute'
        ORDER BY grouped.phase_entered_at LIMIT %(limit)s
    """
    sessions = dict(_read(statement, {"limit": limit}))
    found = ConsumerGroup.objects.in_bulk(list(sessions))
    return [
        (found[name], session_timeout_ms) for name, session_timeout_ms in sessions.items() if name in found
    ]


def rows_of(kind: type[Row], statement: str, values: dict[str, Any]) -> list[Row]:
    """Rows of this kind. Raises TypeError unless the columns are its fields, in their order and by name.

    Once a statement, not once a row: a group may have ten thousand partitions.
    """
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        names = tuple(column.name for column in cursor.description or ())
        if names != kind._fields:
            raise TypeError(f"{kind.__name__} has {kind._fields}, its statement {names}")
        return [kind._make(row) for row in cursor.fetchall()]


def _read(statement: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())
