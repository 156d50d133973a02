"""This room reads brokers, topics and partitions for people; each question is one statement."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db import connection

from controller import conditions, configuration
from controller.judging import (
    LAGGING,
    SETTLED,
    SINCE_TROUBLED,
    SINCES,
    STATED,
    TROUBLES,
    UNSETTLED,
    WITH_LAGS,
    alike,
    replicas_by_broker,
)
from controller.models import NO_LEADER, Broker, BrokerCondition

LIVE, FENCED, NEVER_CONNECTED = "Live", "Fenced", "Never connected"

_REPLICAS_BY_BROKER: Final = replicas_by_broker()
_REPLICAS_OF_BROKERS: Final = replicas_by_broker(
    "WHERE assigned && %(whose)s::int[]", "WHERE replica = ANY (%(whose)s::int[])"
)

_HEALTH = f"""
    WITH alike AS MATERIALIZED ({alike(f"WHERE {UNSETTLED}")}),
    held AS (SELECT count(*)::int AS partitions, COALESCE(sum(cardinality(assigned)), 0)::int AS replicas
             FROM partition)
    SELECT held.partitions, held.replicas, troubled.* FROM held, (
        SELECT COALESCE(sum(held) FILTER (WHERE leader = {NO_LEADER}), 0)::int,
               COALESCE(sum(held) FILTER (WHERE {TROUBLES["attention"]}), 0)::int,
               COALESCE(sum(held) FILTER (WHERE {TROUBLES["under-min-isr"]}), 0)::int,
               COALESCE(sum(held) FILTER (WHERE {TROUBLES["one-copy"]}), 0)::int,
               min({SINCES["attention"]}) FILTER (WHERE {TROUBLES["attention"]})
        FROM alike) AS troubled
"""


@dataclass(slots=True)
class BrokerRow:
    """One broker with what it holds."""

    broker: Broker
    replicas: int
    leaders: int
    out_of_sync: int
    size_bytes: int | None = None
    """Of its replicas, as their leaders last said; None: nobody did."""
    offline_logs: int = 0
    damaged_logs: int = 0

    @property
    def condition(self) -> BrokerCondition | None:
        """How it is, as it said last; None: it never said."""
        return getattr(self.broker, "condition", None)

    @property
    def short_since(self) -> datetime | None:
        """Since when it takes no records for want of room; None: it takes them, or is away."""
        told = self.condition
        return told.short_since if told and not self.broker.fenced else None

    @property
    def disk_bytes(self) -> int | None:
        """The room that is left on its disk; None: it did not say, or is away: what it said then is old."""
        told = self.condition
        return told.disk_usable_bytes if told and not self.broker.fenced else None

    @property
    def troubled(self) -> bool:
        """Something about it needs a person."""
        return self.attention or self.short_since is not None or self.offline_logs + self.damaged_logs > 0

    @property
    def state(self) -> str:
        """Live, Fenced, or Never connected: enrolled, but no process has said hello yet."""
        return state_of(self.broker)

    @property
    def attention(self) -> bool:
        """A fenced broker that once was there needs a person."""
        return self.state == FENCED


@dataclass(frozen=True, slots=True)
class Health:
    """How safe the data is, counted over every partition."""

    partitions: int
    replicas: int
    offline: int
    under_replicated: int
    under_min_isr: int
    one_copy: int
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition as its row says: `copies` of its ISR have a session, `in_sync` of these keep up.

    `floor` is the least that its ISR may have for acks=all; `lagging` are those for whom its leader refuses
    it; `since` is when what was asked about began.
    """

    id: int
    topic_name: str
    topic_id: Any
    partition: int
    assigned: Sequence[int]
    leader: int
    leader_epoch: int
    isr: Sequence[int]
    version: int
    adding: Sequence[int]
    removing: Sequence[int]
    in_sync: int
    copies: int
    floor: int
    lagging: Sequence[int]
    since: datetime
    high_watermark: int | None = None
    size_bytes: int | None = None
    unproven: int = 0
    """Not 0: the database was set back, and without a leader its replicas have to show their logs."""
    logs: Sequence[conditions.LogRow] = ()
    """Those of its logs that are in trouble, if the page asked for them."""

    @property
    def name(self) -> str:
        """`flights-5`."""
        return f"{self.topic_name}-{self.partition}"

    @property
    def offline(self) -> bool:
        return self.leader == NO_LEADER

    @property
    def settled(self) -> int:
        """How many replicas it is to have in sync: without those that are still being added."""
        return len(self.assigned) - len(self.adding)

    @property
    def note(self) -> str:
        """What is to be said of it in a few words; empty: nothing."""
        logs = [f"log of broker {one.broker_id} {one.words}" for one in self.logs]
        return "; ".join(filter(None, (self._standing, *logs)))

    @property
    def _standing(self) -> str:
        if self.offline:
            if not self.isr:
                return "offline, never had a leader"
            if self.unproven:
                return "offline, waits for all logs to be shown"
            return f"offline, last ISR {', '.join(str(member) for member in self.isr)}"
        if self.in_sync < self.floor:
            return "under min ISR" + "".join(f", broker {member} lags" for member in self.lagging)
        if self.copies == 1 and self.settled > 1:
            return "one copy left"
        if self.in_sync < self.settled:
            return "under-replicated"
        if self.adding or self.removing:
            comes = [f"{broker} is added" for broker in self.adding]
            goes = [f"{broker} leaves" for broker in self.removing]
            return f"moves: {', '.join(comes + goes)}"
        if self.leader != self.assigned[0]:
            return f"preferred leader is {self.assigned[0]}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One topic with its partitions counted, broker by broker."""

    topic_id: Any
    name: str
    partition_count: int
    matching: int
    in_full_sync: int
    offline: int
    under_min_isr: int
    one_copy: int
    by_broker: dict[str, tuple[int, int]]

    def held_by(self, broker_id: int) -> tuple[int, int]:
        """How many partitions the broker leads, and of how many it holds a replica."""
        led, held = self.by_broker.get(str(broker_id), (0, 0))
        return led, held

    @property
    def untroubled(self) -> bool:
        return self.in_full_sync == self.partition_count

    @property
    def under_replicated(self) -> int:
        """How many are not in full sync."""
        return self.partition_count - self.in_full_sync


def state_of(broker: Broker) -> str:
    """The word for a broker's state."""
    if broker.broker_epoch == 0:
        return NEVER_CONNECTED
    return FENCED if broker.fenced else LIVE


def live_ids(brokers: Iterable[Broker]) -> list[int]:
    """The ids of the brokers that have a session."""
    return [broker.broker_id for broker in brokers if not broker.fenced]


def kept_out(broker_ids: Sequence[int]) -> list[int]:
    """Those of these brokers that know more than the database, and get no session before it is adopted."""
    rows = Broker.objects.filter(broker_id__in=broker_ids).exclude(set_back="")
    return list(rows.order_by("broker_id").values_list("broker_id", flat=True))


def brokers() -> list[BrokerRow]:
    """Every broker in the order of its id."""
    rows = list(Broker.objects.defer("secret_hash").select_related("condition").order_by("broker_id"))
    counts = held(live_ids(rows))
    logs = conditions.counts()
    found = [BrokerRow(broker, *counts.get(broker.broker_id, (0, 0, 0))) for broker in rows]
    for row in found:
        row.offline_logs, row.damaged_logs = logs.get(row.broker.broker_id, (0, 0))
    return found


def held(
    live: Sequence[int], whose: Sequence[int] | None = None
) -> dict[int, tuple[int, int, int, int | None]]:
    """Replicas, leaders, replicas out of sync and bytes, as leaders said, of each broker that holds any.

    Of brokers in `whose`, if given: partitions of others alone are neither sorted nor added up.
    """
    statement = _REPLICAS_BY_BROKER if whose is None else _REPLICAS_OF_BROKERS
    rows = _read(statement, {"live": list(live), "whose": list(whose or ())})
    return {broker_id: (replicas, led, out, size) for broker_id, replicas, led, out, size in rows}


def health(live: Sequence[int]) -> Health:
    """How safe the data is, if the brokers in `live` have a session."""
    return Health(*_read(_HEALTH, {"live": list(live)})[0])


_PARTITION = """
    id, topic_name, topic_id, partition, assigned, adding, removing, leader, leader_epoch, isr, version,
    in_sync, copies, floor, unproven, lagging
"""


def troubled_partitions(
    live: Sequence[int], trouble: str, limit: int, topic_id: Any = None
) -> list[PartitionRow]:
    """Partitions with one of TROUBLES, of all topics or of one, by their names, at most `limit`."""
    of_topic = "AND topic.topic_id = %(topic_id)s" if topic_id else ""
    statement = f"""
        WITH stated AS ({STATED} WHERE {UNSETTLED} {of_topic})
        SELECT {_PARTITION}, {SINCES[trouble]} AS since FROM stated
        WHERE {TROUBLES[trouble]} ORDER BY topic_name, partition LIMIT %(limit)s
    """
    values = {"live": list(live), "limit": limit, "topic_id": topic_id}
    return [PartitionRow(**row) for row in _named(statement, values)]


def topics(live: Sequence[int], *, contains: str, show: str, after: str, limit: int) -> list[TopicRow]:
    """Topics after the name `after` whose name contains `contains`, of which a partition fits `show`."""
    # Of all topics only those that are listed are looked at, where the rows as they are say which these are.
    first = "" if show in _JUDGED_FIRST else "ORDER BY name LIMIT %(limit)s"
    asked = f"""
        WHERE topic_id = ANY (ARRAY(
            SELECT topic_id FROM topic
            WHERE strpos(lower(name), lower(%(contains)s)) > 0 AND name > %(after)s {_having(show)} {first}))
    """
    values = {"live": list(live), "contains": contains, "after": after, "limit": limit}
    return [TopicRow(**row) for row in _named(_listed(asked, show), values)]


BY_SIZE, BY_PARTITIONS = "size", "partitions"
EVERY_TOPIC = 1_000_000
_ORDERS = {BY_SIZE: "size DESC NULLS LAST", BY_PARTITIONS: "partition_count DESC"}


def largest_topics(
    live: Sequence[int], *, contains: str, show: str, order: str, first: int, limit: int
) -> tuple[list[TopicRow], int]:
    """Such topics, the largest or those of most partitions first, from place `first` on; how many fit."""
    values = {"live": list(live), "contains": contains, "after": "", "limit": None}
    fitting = ""
    if show in TROUBLES:
        fitting = "AND topic_id = ANY (%(ids)s::uuid[])"
        troubled = topics(live, contains=contains, show=show, after="", limit=EVERY_TOPIC)
        values["ids"] = [row.topic_id for row in troubled]
    statement = f"""
        SELECT topic_id, count(*) OVER () FROM topic LEFT JOIN (
            SELECT topic_id, sum(size_bytes) AS size FROM partition
            JOIN partition_progress ON partition_progress.partition_id = partition.id GROUP BY 1
        ) AS said USING (topic_id)
        WHERE strpos(lower(name), lower(%(contains)s)) > 0 {fitting}
        ORDER BY {_ORDERS[order]}, name OFFSET {first:d} LIMIT {limit:d}
    """
    found = _read(statement, values)
    ids = [topic_id for topic_id, _ in found]
    listed = _listed("WHERE topic_id = ANY (%(ids)s::uuid[])", show)
    rows = {row["topic_id"]: TopicRow(**row) for row in _named(listed, {**values, "ids": ids})}
    return [rows[topic_id] for topic_id in ids if topic_id in rows], found[0][1] if found else 0


_JUDGED_FIRST = ("under-min-isr", "one-copy")


def _having(show: str) -> str:
    """Of topics, those with such a partition, in SQL; more of them where only judged rows say which."""
    if show not in TROUBLES:
        return ""
    fits = TROUBLES[show] if show == "offline" else UNSETTLED
    return f"AND topic_id IN (SELECT topic_id FROM {WITH_LAGS} WHERE {fits})"


def topic(live: Sequence[int], topic_id: Any, show: str) -> TopicRow | None:
    """One topic with its partitions counted; `matching` are those that fit `show`."""
    asked = "WHERE topic_id = %(topic_id)s"
    statement = _listed(asked, show, least=0)
    rows = _named(statement, {"live": list(live), "topic_id": topic_id, "limit": 1})
    return TopicRow(**rows[0]) if rows else None


def _listed(asked: str, show: str, least: int = 1) -> str:
    """Topics with at least so many partitions that fit `show`, counted over those `asked` for, in SQL."""
    fits = TROUBLES.get(show, "true")
    return f"""
        WITH alike AS MATERIALIZED ({alike(asked)}),
        listed AS (
            SELECT topic_id, topic_name AS name, sum(held)::int AS partition_count,
                   COALESCE(sum(held) FILTER (WHERE {fits}), 0)::int AS matching,
                   COALESCE(sum(held) FILTER (WHERE NOT {TROUBLES["attention"]}), 0)::int AS in_full_sync,
                   COALESCE(sum(held) FILTER (WHERE leader = {NO_LEADER}), 0)::int AS offline,
                   COALESCE(sum(held) FILTER (WHERE {TROUBLES["under-min-isr"]}), 0)::int AS under_min_isr,
                   COALESCE(sum(held) FILTER (WHERE {TROUBLES["one-copy"]}), 0)::int AS one_copy
            FROM alike GROUP BY topic_id, topic_name
            HAVING count(*) FILTER (WHERE {fits}) >= {least}
            ORDER BY topic_name LIMIT %(limit)s
        ), counted AS (
            SELECT topic_id, replica, sum(held) AS held,
                   COALESCE(sum(held) FILTER (WHERE leader = replica), 0) AS led
            FROM alike JOIN listed USING (topic_id), unnest(assigned) AS replica GROUP BY 1, 2
        )
        SELECT listed.*, json_object_agg(replica, json_build_array(led, counted.held)) AS by_broker
        FROM listed JOIN counted USING (topic_id)
        GROUP BY {", ".join(str(column) for column in range(1, 9))} ORDER BY listed.name
    """


def names_up_to(live: Sequence[int], *, contains: str, show: str, last: str, limit: int) -> list[str]:
    """The names of such topics up to `last`, backwards from it."""
    statement = f"""
        WITH stated AS ({STATED} WHERE strpos(lower(topic.name), lower(%(contains)s)) > 0
                        AND topic.name <= %(last)s {f"AND {UNSETTLED}" if show in TROUBLES else ""})
        SELECT DISTINCT topic_name FROM stated WHERE {TROUBLES.get(show, "true")}
        ORDER BY topic_name DESC LIMIT %(limit)s
    """
    values = {"live": list(live), "contains": contains, "last": last, "limit": limit}
    return [name for (name,) in _read(statement, values)]


def partitions_of(
    live: Sequence[int],
    topics: Sequence[TopicRow],
    show: str,
    first: int,
    limit: int,
    *,
    by_number: bool = False,
) -> dict[Any, list[PartitionRow]]:
    """The partitions of some topics that fit `show`, of each `limit` from place `first` on.

    The worst come first, unless they are asked for `by_number`.
    """
    since = SINCES.get(show, SINCE_TROUBLED)
    # Where nothing is troubled the index alone knows the first partitions of ten thousand.
    worst_first = f"leader = {NO_LEADER} DESC, in_sync < {SETTLED} DESC, partition"
    orders = (
        ("partition", [topic.topic_id for topic in topics if topic.untroubled or by_number]),
        (worst_first, [topic.topic_id for topic in topics if not (topic.untroubled or by_number)]),
    )
    found: dict[Any, list[PartitionRow]] = {}
    for order, topic_ids in orders:
        statement = f"""
            SELECT {_PARTITION}, {since} AS since, progress.high_watermark, progress.size_bytes
            FROM unnest(%(topics)s::uuid[]) AS asked(about) CROSS JOIN LATERAL (
                WITH stated AS ({STATED} WHERE topic.topic_id = asked.about)
                SELECT * FROM stated WHERE {TROUBLES.get(show, "true")}
                ORDER BY {order} OFFSET %(first)s LIMIT %(limit)s) AS shown
            LEFT JOIN partition_progress AS progress ON progress.partition_id = shown.id
            ORDER BY topic_name, {order}
        """
        values = {"live": list(live), "topics": topic_ids, "first": first, "limit": limit}
        for row in _named(statement, values) if topic_ids else ():
            found.setdefault(row["topic_id"], []).append(PartitionRow(**row))
    return found


def with_logs(rows: Sequence[PartitionRow]) -> list[PartitionRow]:
    """The same rows with those of their logs that are in trouble."""
    found = conditions.of_partitions([row.id for row in rows], conditions.IN_TROUBLE)
    return [replace(row, logs=found[row.id]) if row.id in found else row for row in rows]


def sizes(topic_ids: Sequence[Any]) -> dict[Any, int]:
    """The bytes of these topics at their leaders; one of which nobody said anything is left out."""
    statement = """
        SELECT topic_id, sum(size_bytes)::bigint
        FROM partition JOIN partition_progress ON partition_progress.partition_id = partition.id
        WHERE topic_id = ANY (%(topics)s::uuid[]) AND size_bytes IS NOT NULL GROUP BY topic_id
    """
    return dict(_read(statement, {"topics": list(topic_ids)}))


def partition(live: Sequence[int], partition_id: int) -> PartitionRow | None:
    """One partition by the id of its row."""
    statement = f"""
        WITH stated AS ({STATED} WHERE partition.id = %(id)s)
        SELECT {_PARTITION}, {SINCE_TROUBLED} AS since, progress.high_watermark, progress.size_bytes
        FROM stated LEFT JOIN partition_progress AS progress ON progress.partition_id = stated.id
    """
    rows = _named(statement, {"live": list(live), "id": partition_id})
    return PartitionRow(**rows[0]) if rows else None


ROLES = {
    "all": "true",
    "leads": "leader = %(broker)s",
    "out": f"""NOT (%(broker)s = ANY (isr) AND %(broker)s = ANY (%(live)s) AND %(broker)s <> ALL ({LAGGING}))
              AND %(broker)s <> ALL (adding)""",
    "moves": "(%(broker)s = ANY (adding) OR %(broker)s = ANY (removing))",
}
"""What a broker may be to a partition of which it holds a replica, in SQL over its row."""


def count_on(live: Sequence[int], broker_id: int) -> tuple[int, int, int, int]:
    """How many partitions the broker holds, leads, is out of sync with, and is added to or leaves."""
    counts = ", ".join(f"count(*) FILTER (WHERE {role})::int" for role in ROLES.values())
    statement = f"SELECT {counts} FROM {WITH_LAGS} WHERE assigned @> ARRAY[%(broker)s::int]"
    held, led, out, moving = _read(statement, {"broker": broker_id, "live": list(live)})[0]
    return held, led, out, moving


def under_replicated_led_by(live: Sequence[int], broker_id: int) -> int:
    """How many of the partitions that the broker leads are not in full sync."""
    statement = f"""
        WITH alike AS MATERIALIZED ({alike("WHERE leader = %(broker)s")})
        SELECT COALESCE(sum(held) FILTER (WHERE {TROUBLES["attention"]}), 0)::int FROM alike
    """
    return int(_read(statement, {"broker": broker_id, "live": list(live)})[0][0])


def partitions_on(
    live: Sequence[int], broker_id: int, role: str, first: int, limit: int
) -> list[PartitionRow]:
    """Partitions that the broker holds in such a role, by their names, `limit` from `first` on."""
    statement = f"""
        WITH held AS MATERIALIZED (
            SELECT partition.id FROM {WITH_LAGS} JOIN topic ON topic.topic_id = partition.topic_id
            WHERE assigned @> ARRAY[%(broker)s::int] AND {ROLES[role]}
            ORDER BY topic.name, partition.partition OFFSET %(first)s LIMIT %(limit)s),
        stated AS ({STATED} WHERE partition.id IN (SELECT id FROM held))
        SELECT {_PARTITION}, {SINCE_TROUBLED} AS since, progress.high_watermark, progress.size_bytes
        FROM stated LEFT JOIN partition_progress AS progress ON progress.partition_id = stated.id
        ORDER BY topic_name, partition
    """
    values = {"broker": broker_id, "live": list(live), "first": first, "limit": limit}
    return [PartitionRow(**row) for row in _named(statement, values)]


def _named(statement: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows by the names of their columns."""
    with connection.cursor() as cursor:
        cursor.execute(statement, _with_default(values))
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _read(statement: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, _with_default(values))
        return list(cursor.fetchall())


def _with_default(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a statement, and the cluster's own min.insync.replicas, which nodes tell brokers, too."""
    default = configuration.from_environment().core.default_min_insync_replicas
    return {**values, "min_insync_default": default}
