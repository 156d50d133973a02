"""This room reads who holds which lease, who does the work and what turns refused, for people."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.db.models.functions import Now

from runtime.models import Refusal
from runtime.ports import CONTROLLER_LANE
from runtime.refusals import SHOWN_HOURS

ALIVE = "NOT session.ended AND COALESCE(session.renewed_at > now() - interval '5 seconds', true)"
"""A run is renewed several times a second; a node that was killed alone is ended by nobody."""

_HOLDER = f"""
    SELECT session.node, lease.epoch FROM lease
    JOIN node_session AS session ON session.run = lease.run AND {ALIVE}
    WHERE lease.name = %s
"""
_CONTROLLER = f"""
    SELECT cluster.metadata_version, holder.node, holder.epoch
    FROM cluster LEFT JOIN ({_HOLDER}) AS holder ON true ORDER BY cluster.id LIMIT 1
"""
_ORPHANS = f"""
    SELECT lease.name, session.renewed_at, session.node, current_setting('transaction_read_only') = 'on'
    FROM lease LEFT JOIN node_session AS session ON session.run = lease.run
    WHERE session.run IS NULL OR NOT ({ALIVE}) ORDER BY lease.name
"""
_LAST_HEARD = f"""
    SELECT max(renewed_at), (array_agg(node ORDER BY renewed_at DESC NULLS LAST))[1]
    FROM node_session AS session HAVING bool_and(NOT ({ALIVE}))
"""
"""When the last node was heard, if none is left: one that stops in order gives its leases back."""

_WAITING = """
    SELECT count(*), min(offered_at), array_agg(DISTINCT key) FILTER (WHERE kind = 'rebalance')
    FROM work_item
    WHERE state IN ('due', 'claimed') AND offered_at < now() - interval '10 seconds'
"""
_NOT_IN_THE_FUTURE = "claimed_at <= now() + interval '1 minute'"
_TAKEN = f"""
    SELECT claimed_at FROM work_item
    WHERE {_NOT_IN_THE_FUTURE} AND claimed_at > (SELECT at FROM began) AND claimed_by LIKE"""
_BY_SPARES = f"""
    WITH began AS (
        SELECT min(CASE WHEN started_at <= now() THEN started_at ELSE '-infinity' END) AS at
        FROM node_session AS session WHERE {ALIVE})
    SELECT count(*), min(claimed_at)
    FROM ({_TAKEN} 'spare of %%' AND state = 'adopted'
        UNION ALL {_TAKEN} 'spare of %%' AND state = 'done') AS by_spares
    WHERE claimed_at > COALESCE(GREATEST(
        ({_TAKEN} 'worker %%' AND state = 'adopted' ORDER BY claimed_at DESC LIMIT 1),
        ({_TAKEN} 'worker %%' AND state <> 'adopted' ORDER BY claimed_at DESC LIMIT 1)), '-infinity')
"""
"""What was done before the nodes of today began, on another day or server, tells nothing of workers; nor does
what was done while the clock of this server was ahead, before it was set right. Work that is adopted, of a
week, is read by its index `work_item_taken`, backwards: each state is asked for by itself.
"""

_MADE_WAY = f"""
    SELECT session.node, coalesce(other.node, ''), session.made_way_at
    FROM node_session AS session LEFT JOIN node_session AS other ON other.run = session.made_way_for
    WHERE session.made_way_at > now() - interval '{SHOWN_HOURS} hours' AND {ALIVE} ORDER BY 3
"""

_ONCE_IS_CHANCE = 2
_REFUSALS = 200


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The node that may write a lane, and the epoch it proves this with."""

    node: str
    epoch: int


def holder_of(lane: str) -> LeaseHolder | None:
    """Who holds the lease of `lane`; None while nobody does."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLDER, [lane])
        row = cursor.fetchone()
    return LeaseHolder(*row) if row else None


@dataclass(frozen=True, slots=True)
class Orphans:
    """Lanes that nobody holds, since the last of their owners was heard; None: nobody knows when.

    `nodes`: those owners, as far as they are known; of lanes that were all given back, the last node.
    Where the database `only_reads`, no node can renew what it holds, however many run.
    """

    lanes: tuple[str, ...]
    since: datetime | None
    only_reads: bool
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What does not go as it should with work items.

    `waiting` of them are open for more than ten seconds, some about rebalances of `groups`; the last
    `by_spares` ones were all done by the nodes' spare processes, as if there were no worker, the first of
    them taken at `by_spares_since`.
    """

    waiting: int
    waiting_since: datetime | None
    groups: tuple[str, ...]
    by_spares: int
    by_spares_since: datetime | None


@dataclass(frozen=True, slots=True)
class MadeWay:
    """A node that left the controller to another, as brokers reached that one; `to` may be unknown."""

    node: str
    to: str
    since: datetime


def made_way() -> list[MadeWay]:
    """Those that live, of the last hours, the longest first."""
    with connection.cursor() as cursor:
        cursor.execute(_MADE_WAY)
        return [MadeWay(*row) for row in cursor.fetchall()]


def orphans() -> Orphans:
    """The lanes that nobody holds: their groups do not move."""
    with connection.cursor() as cursor:
        cursor.execute(_ORPHANS)
        rows = cursor.fetchall()
        heard = [(at, node) for _, at, node, _ in rows if at is not None]
        if rows and not heard:
            cursor.execute(_LAST_HEARD)
            heard = [(at, node) for at, node in cursor.fetchall() if at is not None]
    only_reads = any(reads for *_, reads in rows)
    nodes = tuple(sorted({node for _, node in heard}))
    since = max(at for at, _ in heard) if heard else None
    return Orphans(tuple(name for name, *_ in rows), since, only_reads, nodes)


def work() -> Work:
    """Whether work that is due gets done, and by whom."""
    with connection.cursor() as cursor:
        cursor.execute(_WAITING)
        waiting, waiting_since, groups = cursor.fetchone()
        cursor.execute(_BY_SPARES, [])
        by_spares, by_spares_since = cursor.fetchone()
    alone = by_spares if by_spares >= _ONCE_IS_CHANCE else 0
    return Work(waiting, waiting_since, tuple(groups or ()), alone, by_spares_since if alone else None)


def refusals() -> list[Refusal]:
    """What turns refused of late, newest first."""
    since = Now() - timedelta(hours=SHOWN_HOURS)
    return list(Refusal.objects.filter(last_at__gt=since).order_by("-last_at")[:_REFUSALS])


def controller_now() -> tuple[int | None, LeaseHolder | None]:
    """The version of the last controller turn, None before there was a cluster, and who is controller."""
    with connection.cursor() as cursor:
        cursor.execute(_CONTROLLER, [CONTROLLER_LANE])
        version, *holder = cursor.fetchone() or (None, None, None)
    return version, LeaseHolder(*holder) if holder[0] else None
