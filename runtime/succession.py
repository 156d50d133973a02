"""This room lifts every epoch above what a lost primary may have given out (design chapter 4.5).

A standby that was promoted, or a copy that was restored, may lack the last transactions of its predecessor.
Whatever was counted there and acknowledged, it would count again. So all that is counted is lifted by LIFT,
every run is ended and every lease is free, before anybody works on it.
"""

import json
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import structlog

from runtime import cluster, nodes
from runtime.cluster import ClusterRow
from runtime.ports import Connection

LIFT: Final = 1_000_000
"""More than anything counts up to in the transactions that a successor can lack."""

BELIEVED_LIFTS: Final = 10
"""So often LIFT at once on the word of a broker alone: two weeks of eight turns a second, or as many lifts of
another copy. A broker that states more is mistaken or lies, until a person says otherwise.
"""

MOST_LIFTS: Final = 100
"""At most so often LIFT at once, whoever says so: leader epochs have room for 2,000 of them."""

ROOM: Final = 2**31 - 1
"""What leader epochs have room for: behind it nobody leads, here or on any other copy."""

LIMIT_S: Final = 60.0
"""How long a lift may take: it writes every group, broker and partition once."""

LANE: Final = "cluster"
"""Under which name the journal keeps successions; no lease has it, so nobody's place in it is counted on."""

_LOCK: Final = 4_005
"""One lift at a time; whoever waited finds nothing left to lift."""


class Lifted(NamedTuple):
    """How many rows of an app were lifted, and by which records the journal tells what they are now: the text
    of a JSON array, as the database has worded hundreds of thousands of them.
    """

    rows: int
    records: str = "[]"


Lift = Callable[[Connection, int, int], Lifted]
"""Lifts one app's rows by a number, and stamps them with a metadata_version."""


class Proof(NamedTuple):
    """How far what was proved to be missing lies above what is counted here, and who proved it by what."""

    lacking: int
    why: str


Lacking = Callable[[Connection, datetime | None, int | None], Proof]
"""What was proved to be missing since then, the last lift, at most; below the number, if one is given."""


class NotBelieved(Exception):
    """What was stated to be missing lies too far above what is counted here to be lifted for unasked.

    `lacking`: how far that is; `enough`: by how much to lift for all that is believed.
    """

    def __init__(self, text: str, lacking: int, enough: int) -> None:
        super().__init__(text)
        self.lacking = lacking
        self.enough = enough


_lifts: dict[str, Lift] = {}
_lacking: dict[str, Lacking] = {}
log = structlog.get_logger(__name__)


def register(what: str, lift: Lift, lacking: Lacking | None = None) -> None:
    """Have the rows called `what` lifted, too: each app that counts something says so when it is loaded.

    `lacking`, if somebody can prove to it that more was given out than the rows hold.
    """
    _lifts[what] = lift
    if lacking is not None:
        _lacking[what] = lacking


def succeed(connection: Connection, node: str) -> ClusterRow:
    """Lift everything if this PostgreSQL was promoted since somebody last looked; the row as it then is.

    Each process does it on the first connection that finds another timeline; the second of two finds it done.
    """
    return _lift(connection, node, "promoted", only_if_promoted=True)[0]


def adopt(connection: Connection, node: str, by: int | None = None) -> tuple[ClusterRow, int]:
    """Lift everything, and make this PostgreSQL the cluster's, whatever it was restored from; by how much.

    `by`: what a person says, from LIFT to MOST_LIFTS of them, whatever brokers stated. Raises NotBelieved.
    """
    return _lift(connection, node, "restored", only_if_promoted=False, by=by)


def _lift(
    connection: Connection, node: str, event: str, *, only_if_promoted: bool, by: int | None = None
) -> tuple[ClusterRow, int]:
    with connection.transaction():
        # The connection's own limit is that of a turn; another one, set later than its clock, does not count.
        connection.execute("SET LOCAL transaction_timeout = 0")
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        # In the order of every other transaction: what is fenced and under way ends first, or never begins.
        connection.execute("SELECT 1 FROM lease ORDER BY name FOR UPDATE")
        before = cluster.read(connection)
        now = cluster.identity(connection)
        if only_if_promoted and not cluster.is_promotion(before, now):
            return before, 0
        newest = connection.execute("SELECT max(at)::text FROM journal").fetchone()[0]
        by = by or _high_enough(connection, is_watched=not only_if_promoted)
        row = cluster.lift(connection, now, by, is_promoted=only_if_promoted)
        lifted = {what: lift(connection, by, row.metadata_version) for what, lift in sorted(_lifts.items())}
        nodes.lift(connection, by)
        ended = connection.execute("UPDATE node_session SET ended = true WHERE NOT ended").rowcount
        connection.execute("UPDATE lease SET run = NULL, epoch = epoch + %s", (by,))
        summary = {
            "event": event,
            "metadata_version": row.metadata_version,
            "timeline_before": before.timeline,
            "timeline": row.timeline,
            "newest_entry_at": newest,
            "by": by,
            "lifted": {what: one.rows for what, one in lifted.items()},
            "ended_runs": ended,
        }
        _tell(connection, node, event, summary, [one.records for one in lifted.values()])
    told = {name: value for name, value in summary.items() if name != "event"}
    log.warning(f"this postgresql was {event}: everything counted was lifted", **told)
    return row, by


def _high_enough(connection: Connection, *, is_watched: bool) -> int:
    """LIFT, and as often again as what was proved to be missing since the last lift needs.

    A copy that is given up may have been lifted itself, more often than this one: whoever was told of that
    is refused until this one is above it. A process that lifts by itself leaves out who is not believed, and
    nobody else, so it stays refused; where a person watches, that one is asked. Raises NotBelieved.
    """
    last = connection.execute("SELECT max(at) FROM journal WHERE lane = %s", (LANE,)).fetchone()[0]
    proof, bound = _most_lacking(connection, last, None), BELIEVED_LIFTS * LIFT
    believed = proof if proof.lacking < bound else _most_lacking(connection, last, bound)
    by = LIFT * (1 + math.ceil(believed.lacking / LIFT))
    if believed is proof:
        return by
    if not is_watched:
        log.warning("more was stated to be missing than is believed", stated=proof.why, lifted_by=by)
        return by
    raise NotBelieved(
        f"{proof.why}: {proof.lacking:,} more than this PostgreSQL holds, and fewer than"
        f" {bound:,} are believed; nothing was lifted",
        proof.lacking,
        by,
    )


def _most_lacking(connection: Connection, since: datetime | None, below: int | None) -> Proof:
    return max((of(connection, since, below) for of in _lacking.values()), default=Proof(0, ""))


def _tell(
    connection: Connection, node: str, event: str, summary: Mapping[str, Any], records: Sequence[str]
) -> None:
    """What was acknowledged after the newest entry is lost; how much that is, nobody can know any more.

    `records`: the texts of JSON arrays.
    """
    newest = summary["newest_entry_at"] or "the beginning"
    connection.execute(
        "INSERT INTO journal (lane, seq, turn_id, node, key, cause, summary, records, at)"
        " SELECT %s, coalesce(max(seq), 0) + 1, %s, %s, 'cluster', %s, %s::jsonb, %s::jsonb,"
        " clock_timestamp() FROM journal WHERE lane = %s",
        (
            LANE,
            uuid.uuid4(),
            node,
            f"PostgreSQL was {event}: what was acknowledged after {newest} and is not here is lost",
            json.dumps(summary),
            f"[{','.join(filter(None, (array[1:-1] for array in records)))}]",
            LANE,
        ),
    )
