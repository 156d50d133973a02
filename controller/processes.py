"""This room reads which processes of a cluster run, which version each, and which node fell silent."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from controller.leases import ALIVE
from runtime.seen import WEB, WORKER

KINDS = ("node", "broker", "web", "worker")
LIVE, LEAVING, FENCED, SILENT = STATES = ("live", "leaving", "fenced", "silent")
SILENT_HOURS = 12
"""So long a node that ended without a word is told of: by then it is gone for good."""

_ALL = f"""
    SELECT 'node', node, 1, version, CASE WHEN NOT ({ALIVE}) THEN 'silent' WHEN draining THEN 'leaving'
        ELSE 'live' END, CASE WHEN {ALIVE} THEN started_at ELSE heard END
    FROM (SELECT DISTINCT ON (node) *, coalesce(renewed_at, started_at) AS heard FROM node_session
          ORDER BY node, started_at DESC) AS session
    WHERE {ALIVE} OR (NOT (ended AND draining) AND heard > now() - interval '{SILENT_HOURS} hours')
    UNION ALL
    SELECT 'broker', broker.broker_id::text, 1, coalesce(said.version, ''), CASE WHEN fenced THEN 'fenced'
        WHEN leaving THEN 'leaving' ELSE 'live' END, CASE WHEN fenced THEN changed_at ELSE registered_at END
    FROM broker LEFT JOIN broker_condition AS said ON said.broker_id = broker.broker_id
    WHERE broker_epoch > 0
    UNION ALL
    SELECT kind, coalesce(nullif(host, ''), host(address), ''), count(*)::int, version, 'live', min(began)
    FROM (SELECT 'web' AS kind, client_addr AS address, backend_start AS began,
                 split_part(application_name, ':', 3) AS version, split_part(application_name, ':', 4) AS host
          FROM pg_stat_activity
          WHERE datname = current_database() AND split_part(application_name, ':', 1) = '{WEB}'
          UNION ALL
          SELECT 'worker', client_addr, backend_start, split_part(application_name, ':', 4),
                 split_part(application_name, ':', 5)
          FROM pg_stat_activity
          WHERE datname = current_database() AND application_name LIKE '{WORKER}w%%') AS seen
    GROUP BY kind, 2, version
"""


@dataclass(frozen=True, slots=True)
class Process:
    """One process, or several of one kind, host and version; `version` empty: one that does not say.

    `since`: when it began, as far as is known; of one that is fenced or silent when it was heard last.
    """

    kind: str
    name: str
    number: int
    version: str
    state: str
    since: datetime | None

    @property
    def title(self) -> str:
        """What people call it."""
        return {"node": self.name, "broker": f"Broker {self.name}"}.get(
            self.kind, f"{self.kind} on {self.name}"
        )


def running() -> list[Process]:
    """Nodes, brokers, web and workers, by name; of workers those that have reached the database."""
    with connection.cursor() as cursor:
        cursor.execute(_ALL, [])
        found = [Process(*row) for row in cursor.fetchall()]
    return sorted(found, key=lambda one: (KINDS.index(one.kind), len(one.name), one.name, one.version))


def versions(processes: Sequence[Process]) -> list[tuple[str, int]]:
    """How many of those that run are of which version, most first."""
    counted: Counter[str] = Counter()
    for one in processes:
        if one.state in (LIVE, LEAVING):
            counted[one.version] += one.number
    return counted.most_common()
