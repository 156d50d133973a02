"""This room reads the journal for people: who did what, when and why, however many turns there are.

A page reads by an index from where the page before ended, and looks at no more than LOOKED_AT turns: where
few of them match it is short, says how far it looked, and the next one goes on there.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final
from uuid import UUID

from django.db import connection

from muster.kernel.error_codes import ErrorCode

LOOKED_AT: Final = 5_000
"""Turns that one page looks at; of those whose records it must read, a tenth."""

GROUPS: Final = "coordinator/"
"""How lanes of groups begin."""
JOURNAL: Final = "journal"
"""What the first page of the journal watches; earlier ones do not change."""

_ASKED = "summary ?| '{asked,principal}'::text[]"
_OF_CONTROLLER = "lane = 'controller'"
_OF_GROUPS = "lane LIKE 'coordinator/%%'"

KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "asked": ("Asked by somebody", _ASKED),
    "rebalances": (
        "Rebalances",
        f"{_OF_GROUPS} AND summary ->> 'event' IN ('opened', 'closed', 'settled', 'failed')",
    ),
    "members": ("Members", f"{_OF_GROUPS} AND summary ->> 'event' IN ('joined', 'left')"),
    "leaders": (
        "Leaders and in-sync replicas",
        f"{_OF_CONTROLLER} AND summary ?| '{{partitions_changed,possible_losses,losses_told}}'::text[]",
    ),
    "topics": (
        "Topics and configs",
        f"{_OF_CONTROLLER} AND summary ?| '{{topics,topics_grown,topics_deleted,topics_shrunk,configs,"
        "quotas}'::text[]",
    ),
    "brokers": (
        "Brokers",
        f"{_OF_CONTROLLER} AND summary ?| '{{brokers_fenced,brokers_leaving,brokers_registered,"
        "brokers_cordoned,brokers_uncordoned,brokers_unregistered,set_back}'::text[]",
    ),
    "moves": (
        "Reassignments and plans",
        f"{_OF_CONTROLLER} AND summary ?| '{{reassignments,plans}}'::text[]",
    ),
    "losses": (
        "Possible losses",
        f"{_OF_CONTROLLER} AND summary ?| '{{possible_losses,losses_told}}'::text[]",
    ),
}
"""What a turn is about, in words and in SQL."""

_OF_TOPIC = """(
    summary -> 'topics' ? %(topic)s OR summary -> 'topics_grown' ? %(topic)s
    OR summary -> 'topics_deleted' ? %(topic)s OR summary -> 'topics_shrunk' ? %(topic)s
    OR EXISTS (SELECT FROM topic CROSS JOIN LATERAL jsonb_array_elements(records) AS record
        WHERE topic.name = %(topic)s AND (record -> 'alike' ->> 0 = topic.topic_id::text
            OR record ->> 'topic_id' = topic.topic_id::text
            OR record -> 'row' ->> 'topic_id' = topic.topic_id::text))
    OR EXISTS (SELECT FROM jsonb_array_elements(records) AS record
        WHERE record ->> 'record' = 'ConfigChanged' AND record ->> 'resource' = %(topic)s))"""

_OF_BROKER = " OR ".join(
    f"summary -> 'brokers_{what}' @> %(broker)s::jsonb"
    for what in ("fenced", "leaving", "registered", "cordoned", "uncordoned", "unregistered")
)

_BY = "(summary ->> 'principal' = %(by)s OR summary -> 'asked' @> %(by_asked)s::jsonb)"

_PLACE_OF_TIME = """
    SELECT {edge}(id) FROM (
        SELECT id FROM journal WHERE at {than} %(at)s ORDER BY at {order} LIMIT 1000) AS near
"""
"""Ids rise nearly as times do: turns that were under way together lie close to each other."""


_IS_REFUSED: Final = f"@.error != 0 && @.error != {ErrorCode.ELECTION_NOT_NEEDED:d}"
_ANSWERS: Final = f"""
    SELECT lane, seq, told ->> 'request_id', jsonb_array_length(refused),
        jsonb_array_length(jsonb_path_query_array(told, 'strict $.answer.** ? (exists (@.error))')),
        (refused -> 0 ->> 'error')::int, COALESCE(refused -> 0 ->> 'text', told -> 'answer' ->> 'text', '')
    FROM unnest(%(lanes)s::text[], %(seqs)s::bigint[]) AS wanted (lane, seq) JOIN journal USING (lane, seq)
    CROSS JOIN LATERAL
        jsonb_path_query(records, '$[*] ? (exists (@.request_id) && exists (@.answer))') AS told
    CROSS JOIN LATERAL jsonb_path_query_array(told, 'strict $.answer.** ? ({_IS_REFUSED})') AS refused
    WHERE jsonb_array_length(refused) > 0 OR told -> 'answer' ->> 'verdict' = 'changed meanwhile'"""
"""What of the requests that these turns answered was not done: how many things, of how many, and why not."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Of what somebody asked `number` things `of` so many were refused, the first of them for `why`."""

    number: int
    of: int
    why: str

    @property
    def is_whole(self) -> bool:
        """Nothing of it was done."""
        return self.number >= self.of


NAMED: Final = 3
"""So many partitions that a turn changed are named; of more it is said how many they are."""

_CHANGED: Final = """
    SELECT lane, seq, name, number::int, (record -> 'alike' ->> 2)::int, record -> 'alike' -> 4,
        record -> 'alike' -> 6, record -> 'alike' -> 7
    FROM unnest(%(lanes)s::text[], %(seqs)s::bigint[]) AS wanted (lane, seq) JOIN journal USING (lane, seq)
    CROSS JOIN LATERAL jsonb_array_elements(records) AS record
    JOIN topic ON topic_id = (record -> 'alike' ->> 0)::uuid
    CROSS JOIN LATERAL jsonb_array_elements(record -> 'alike' -> 5) AS number
    WHERE record ->> 'record' = 'PartitionsChanged' ORDER BY lane, seq, name, 4"""
"""The partitions that these turns changed, and to what; without those of topics that are gone."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A partition as a turn left it; `leader` below 0: nobody."""

    topic: str
    number: int
    leader: int
    isr: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]

    @property
    def name(self) -> str:
        """`orders-3`."""
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which turns; empty: all. `before`: from which place on, None: from the newest."""

    group: str = ""
    topic: str = ""
    broker: int | None = None
    by: str = ""
    kind: str = ""
    since: datetime | None = None
    until: datetime | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody asked for in a turn, and why."""

    what: str
    by: str
    why: str = ""
    through: str = ""
    request: str = ""
    verdict: str = ""
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn as people read it."""

    place: int
    lane: str
    seq: int
    key: str
    cause: str
    summary: Mapping[str, Any]
    node: str
    at: datetime
    refusals: dict[str, Refusal] = field(default_factory=dict)
    """By the request's id; of a group, whose turns tell of one request, by nothing."""
    changed: list[Changed] = field(default_factory=list)
    """Partitions, if they are few."""

    @property
    def just_before(self) -> str:
        """The moment before it, for pages that show what was then."""
        return (self.at - timedelta(milliseconds=1)).isoformat()

    @property
    def of_group(self) -> bool:
        return self.lane.startswith(GROUPS)

    @property
    def deeds(self) -> list[Deed]:
        """Who asked for what; none: it happened by itself."""
        if self.of_group:
            by = self.summary.get("principal")
            if by is None:
                return []
            said = {name: str(self.summary.get(name, "")) for name in ("request", "reason", "verdict")}
            refusal = self.refusals.get("")
            return [Deed(said["request"], str(by), said["reason"], verdict=said["verdict"], refusal=refusal)]
        known = ("what", "by", "why", "through", "request")
        return [
            Deed(
                **{name: str(one[name]) for name in known if name in one},
                **_missing(one),
                refusal=self.refusals.get(one.get("request")),
            )
            for one in self.summary.get("asked", ())
        ]

    @property
    def topics(self) -> list[str]:
        """Topics that it names."""
        names = ("topics", "topics_grown", "topics_shrunk", "topics_deleted")
        return [topic for name in names for topic in self.summary.get(name, ())]

    @property
    def brokers(self) -> list[int]:
        """Brokers that it names."""
        return sorted(
            {broker for name, some in self.summary.items() if name.startswith("brokers_") for broker in some}
        )

    @property
    def plans(self) -> list[tuple[UUID, str, str]]:
        """Plans that it changed: id, kind, phase."""
        said = (str(one).split(" ", 2) for one in self.summary.get("plans", ()))
        return [(UUID(plan.removesuffix(":")), kind, phase) for kind, plan, phase in said]

    @property
    def told(self) -> list[str]:
        """What else it says of itself, in words."""
        told = (self.summary.get(kind, ()) for kind in ("logs_compared", "losses_told", "configs"))
        return list(map(str, chain.from_iterable(told)))


@dataclass(frozen=True, slots=True)
class Page:
    """Turns, newest first. `following`: where the next page begins, None: there is nothing behind.

    `looked_to`: when the last turn was that it looked at, if it is short for having looked enough.
    """

    turns: Sequence[Turn] = ()
    following: int | None = None
    looked_to: datetime | None = None


@dataclass(slots=True)
class _Question:
    """SQL that is put together: by what it goes, what narrows the index, what is looked at row by row."""

    looked_at: int
    by: str = "id"
    bounds: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)


def fingerprint() -> str:
    """Changes with every turn."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT COALESCE(max(id), 0)::text FROM journal")
        (newest,) = cursor.fetchone()
    return str(newest)


def page(wanted: Wanted, size: int) -> Page:
    """The turns that are wanted, at most `size` of them."""
    put = _question(wanted)
    if put is None:
        return Page()
    put.values |= {"limit": size + 1, "looked_at": put.looked_at}
    looked = f"""SELECT * FROM journal {_where(put.bounds)} ORDER BY {put.by} DESC LIMIT %(looked_at)s"""
    statement = f"""SELECT {put.by}, lane, seq, key, cause, summary, node, at FROM ({looked}) AS looked
        {_where(put.asked)} ORDER BY {put.by} DESC LIMIT %(limit)s"""
    with connection.cursor() as cursor:
        cursor.execute(statement, put.values)
        turns = [_turn(*row) for row in cursor.fetchall()]
        _find_refusals(cursor, [turn for turn in turns[:size] if turn.deeds])
        _find_changed(
            cursor,
            [turn for turn in turns[:size] if 0 < turn.summary.get("partitions_changed", 0) <= NAMED],
        )
        if len(turns) > size:
            return Page(turns[:size], turns[size - 1].place)
        end = f"""SELECT count(*), min(place), min(at) FROM (SELECT {put.by} AS place, at FROM journal
            {_where(put.bounds)} ORDER BY {put.by} DESC LIMIT %(looked_at)s) AS looked"""
        cursor.execute(end, put.values)
        count, place, at = cursor.fetchone()
    return Page(turns, place, at) if count == put.looked_at else Page(turns)


def _question(wanted: Wanted) -> _Question | None:
    """None: nothing lies in that time."""
    put = _Question(LOOKED_AT)
    of_controller = bool(wanted.topic) or wanted.broker is not None or _is_of_controller(wanted.kind)
    if wanted.group:
        put.bounds.append("key = %(group)s")
        put.asked.append(_OF_GROUPS)
        put.values["group"] = wanted.group
    elif wanted.by or wanted.kind == "asked":
        put.bounds.append(_ASKED)
    elif of_controller:
        # Of one lane the numbers are read by their index.
        put.by = "seq"
        put.bounds.append(_OF_CONTROLLER)
    if of_controller:
        put.asked.append(_OF_CONTROLLER)
    if wanted.kind:
        put.asked.append(KINDS[wanted.kind][1])
    if wanted.by:
        put.asked.append(_BY)
        put.values |= {"by": wanted.by, "by_asked": json.dumps([{"by": wanted.by}])}
    if wanted.topic:
        put.asked.append(_OF_TOPIC)
        put.values["topic"] = wanted.topic
        put.looked_at = LOOKED_AT // 10
    if wanted.broker is not None:
        put.asked.append(f"({_OF_BROKER})")
        put.values["broker"] = json.dumps([wanted.broker])
    if wanted.before is not None:
        put.bounds.append(f"{put.by} < %(before)s")
        put.values["before"] = wanted.before
    return put if _bound_in_time(put, wanted) else None


def _is_of_controller(kind: str) -> bool:
    return kind in KINDS and KINDS[kind][1].startswith(_OF_CONTROLLER)


def _bound_in_time(put: _Question, wanted: Wanted) -> bool:
    """Begin and end where the times lie; False: nothing does."""
    for at, edge, than, order, sign in (
        (wanted.until, "max", "<=", "DESC", "<="),
        (wanted.since, "min", ">=", "ASC", ">="),
    ):
        if at is None:
            continue
        with connection.cursor() as cursor:
            cursor.execute(_PLACE_OF_TIME.format(edge=edge, than=than, order=order), {"at": at})
            place = cursor.fetchone()[0]
        if place is None:
            return False
        put.bounds.append(f"id {sign} %({edge}_id)s")
        put.asked.append(f"at {than} %({edge}_at)s")
        put.values |= {f"{edge}_id": place, f"{edge}_at": at}
    return True


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(f'({one})' for one in conditions)}" if conditions else ""


def _turn(
    place: int, lane: str, seq: int, key: str, cause: str, summary: Any, node: str, at: datetime
) -> Turn:
    read = json.loads(summary) if isinstance(summary, str) else summary
    return Turn(place, lane, seq, key, cause, read, node, at)


def _find_refusals(cursor: Any, turns: Sequence[Turn]) -> None:
    """Note at each of these turns what of what was asked in it was not done."""
    if not turns:
        return
    by_place = {(turn.lane, turn.seq): turn for turn in turns}
    lanes, seqs = zip(*by_place, strict=True)
    cursor.execute(_ANSWERS, {"lanes": list(lanes), "seqs": list(seqs)})
    for lane, seq, request, number, of, error, text in cursor.fetchall():
        turn = by_place[lane, seq]
        why = text.removesuffix(".") or (ErrorCode(error).name if error else "")
        turn.refusals["" if turn.of_group else request] = Refusal(number, of, why)


def _find_changed(cursor: Any, turns: Sequence[Turn]) -> None:
    """Note at each of these turns which partitions it changed."""
    if not turns:
        return
    by_place = {(turn.lane, turn.seq): turn for turn in turns}
    lanes, seqs = zip(*by_place, strict=True)
    cursor.execute(_CHANGED, {"lanes": list(lanes), "seqs": list(seqs)})
    for lane, seq, topic, number, leader, *lists in cursor.fetchall():
        by_place[lane, seq].changed.append(Changed(topic, number, leader, *map(_numbers, lists)))
    for turn in turns:
        # Where some are gone with their topics, it is said how many there were.
        if len(turn.changed) != turn.summary["partitions_changed"]:
            turn.changed.clear()


def _numbers(stored: Any) -> Sequence[int]:
    found: Sequence[int] = json.loads(stored) if isinstance(stored, str) else stored or ()
    return found


def _missing(one: Mapping[str, Any]) -> dict[str, str]:
    """What a deed must say, where the journal of before said nothing."""
    return {name: "" for name in ("what", "by") if name not in one}
