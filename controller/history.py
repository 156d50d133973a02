"""This room tells what partitions were: their rows walked back, change by change, along the journal.

Each record of a change names the version that it replaced, and each version is that of one turn: so the walk
jumps from turn to turn by an index and never searches, however long the journal is.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection

from controller.models import NO_LEADER, Partition, Plan, Topic
from muster.messages.link.rows import AlikePartitions

CHANGES_WALKED = 100
"""Changes of a partition that are walked back at most: each is one question for all of a page."""

_TURNS = """
    SELECT (summary ->> 'metadata_version')::bigint, at, cause, node,
           (SELECT json_agg(record) FROM jsonb_array_elements(records) AS record
            WHERE record -> 'alike' ->> 0 = %(topic)s OR record ->> 'topic_id' = %(topic)s)::text
    FROM (SELECT * FROM journal
          WHERE lane = 'controller' AND (summary ->> 'metadata_version')::bigint = ANY (%(versions)s)
          UNION ALL SELECT * FROM journal
          WHERE lane = 'cluster' AND (summary ->> 'metadata_version')::bigint = ANY (%(versions)s)) AS turns
"""
"""Those of the cluster are the few lifts behind promotions and restores (`runtime.succession`)."""
_REMOVALS = """
    SELECT record ->> 'topic_id', record ->> 'record' = 'TopicDeleted',
           COALESCE((record ->> 'first')::int, 0),
           COALESCE((record ->> 'count')::int, (record ->> 'partition_count')::int), record -> 'versions', at
    FROM (SELECT id, at, records FROM journal WHERE lane = 'controller'
          AND summary ?| '{topics_deleted,topics_shrunk}'::text[] AND at > %(moment)s) AS later
    CROSS JOIN LATERAL jsonb_array_elements(records) AS record
    WHERE record ->> 'record' IN ('TopicDeleted', 'PartitionsRemoved') AND record ->> 'name' = %(name)s
    ORDER BY later.id
"""
_BEGINS = "SELECT at FROM journal WHERE lane = 'controller' ORDER BY seq LIMIT 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A partition as one turn left it; `before` is the version that it replaced, 0: none, it was made.

    `loss` says why committed records may have been lost by it; empty: they were not.
    """

    partition: int
    version: int
    before: int
    at: datetime
    cause: str
    node: str
    assigned: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]
    leader: int
    leader_epoch: int
    isr: Sequence[int]
    loss: str

    @property
    def offline(self) -> bool:
        return self.leader == NO_LEADER

    @property
    def settled(self) -> int:
        """How many replicas it was to have in sync."""
        return len(self.assigned) - len(self.adding)


@dataclass(frozen=True, slots=True)
class Then:
    """A partition at a moment: what it was, or why that is not known."""

    partition: int
    was: Change | None
    unborn: bool = False
    gone_at: datetime | None = None
    """When it was removed, or its topic deleted; another one may have its number now."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Partitions that a turn took away: `count` of them from `first` on, with their topic or without it.

    `versions` are those of their rows by then; none, if the turn was taken before they were kept.
    """

    topic_id: UUID
    whole: bool
    first: int
    count: int
    versions: Sequence[int]
    at: datetime

    def version(self, partition: int) -> int:
        """The version that a partition had; 0: not kept."""
        place = partition - self.first
        return self.versions[place] if 0 <= place < len(self.versions) else 0


@dataclass(frozen=True, slots=True)
class TopicThen:
    """The topic that had a name at a moment: of several it is the one that had it then.

    `partition_count` counts those that were removed since, too; `removals` are its own, since then.
    `present` has the name now, and is this topic if `is_present`; `ended`: it was deleted since.
    """

    topic_id: UUID
    partition_count: int
    removals: Sequence[Removal]
    present: Topic | None
    is_present: bool
    ended: Removal | None

    def was_born(self, moment: datetime) -> bool:
        """Whether it was there by then, as far as its row tells."""
        return self.present is None or not self.is_present or self.present.created_at <= moment


def topic_then(name: str, moment: datetime) -> TopicThen | None:
    """Whose name it was at a moment, or, if nobody had it, whose it is now; None: nobody's."""
    removals = removals_since(name, moment)
    present = Topic.objects.filter(name=name).first()
    ended = next((one for one in removals if one.whole), None)
    if present is not None and (present.created_at <= moment or ended is None):
        topic_id, is_present, ended = present.topic_id, True, None
    elif ended is not None:
        topic_id, is_present = ended.topic_id, False
    else:
        return None
    removals = [one for one in removals if one.topic_id == topic_id]
    count = max((one.first + one.count for one in removals), default=0)
    if present is not None and is_present:
        count = max(count, present.partition_count)
    return TopicThen(topic_id, count, removals, present, is_present, ended)


def removals_since(name: str, moment: datetime) -> list[Removal]:
    """What was taken away of topics of this name after a moment, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_REMOVALS, {"name": name, "moment": moment})
        rows = cursor.fetchall()
    return [
        Removal(UUID(topic_id), whole, first, count, json.loads(versions or "[]"), at)
        for topic_id, whole, first, count, versions, at in rows
    ]


def topics_there(names: Iterable[str]) -> dict[str, int]:
    """Those of these names that some topic has now, each with the number of its partitions."""
    return dict(Topic.objects.filter(name__in=set(names)).values_list("name", "partition_count"))


def plans_there(ids: Collection[UUID]) -> set[UUID]:
    """Those of these plans that are kept."""
    return set(Plan.objects.filter(id__in=ids).values_list("id", flat=True)) if ids else set()


def begins() -> datetime | None:
    """The time of the oldest turn that the journal still has."""
    with connection.cursor() as cursor:
        cursor.execute(_BEGINS)
        row = cursor.fetchone()
    return row[0] if row else None


def changes_of(topic_id: Any, partition: int, version: int, most: int) -> list[Change]:
    """The changes of one partition from the one that made `version` on, newest first."""
    found: list[Change] = []
    while version and len(found) < most:
        change = _changes(topic_id, {partition: version}).get(partition)
        if change is None:
            break
        found.append(change)
        version = change.before
    return found


def as_of(
    topic_id: Any, partitions: Sequence[int], moment: datetime, removals: Sequence[Removal] = ()
) -> list[Then]:
    """What these partitions of a topic were at a moment; what changed too often since is not known.

    `removals`: those of the topic since then. Another partition may have the number of a removed one by now.
    """
    gone = {number: one for number in partitions if (one := _taken(number, removals)) is not None}
    stayed = [number for number in partitions if number not in gone]
    found_now = Partition.objects.filter(topic_id=topic_id, partition__in=stayed)
    present = {row.partition: row for row in found_now}
    told = {number: Then(number, _now(row)) for number, row in present.items() if row.changed_at <= moment}
    versions = {number: row.version for number, row in present.items() if number not in told}
    versions |= {number: one.version(number) for number, one in gone.items() if one.version(number)}
    for _ in range(CHANGES_WALKED):
        if not versions:
            break
        found, versions = _changes(topic_id, versions), {}
        for number, change in found.items():
            if change.at <= moment:
                told[number] = Then(number, change)
            elif change.before:
                versions[number] = change.before
            else:
                told[number] = Then(number, None, unborn=True)
    rows = [told.get(number, Then(number, None)) for number in partitions]
    return [replace(row, gone_at=gone[row.partition].at if row.partition in gone else None) for row in rows]


def _taken(partition: int, removals: Sequence[Removal]) -> Removal | None:
    """What took it away first."""
    return next((one for one in removals if one.first <= partition < one.first + one.count), None)


def _changes(topic_id: Any, versions: Mapping[int, int]) -> dict[int, Change]:
    """The change that made each of these versions; those that the journal forgot are left out."""
    with connection.cursor() as cursor:
        cursor.execute(_TURNS, {"topic": str(topic_id), "versions": sorted(set(versions.values()))})
        turns = cursor.fetchall()
    wanted: dict[int, set[int]] = {}
    for number, version in versions.items():
        wanted.setdefault(version, set()).add(number)
    found: dict[int, Change] = {}
    for version, at, cause, node, text in turns:
        records = msgspec.json.decode(text) if text else []
        losses = {
            record["partition"]: record.get("reason", "")
            for record in records
            if record.get("record") == "PossibleLoss"
        }
        for record in records:
            if "alike" not in record:
                continue
            alike = msgspec.convert(record["alike"], AlikePartitions)
            bases: Iterable[int] = record.get("base_versions") or [0] * len(alike.partitions)
            for number, before in zip(alike.partitions, bases, strict=True):
                if number in wanted.get(version, ()):
                    found[number] = Change(
                        partition=number,
                        version=version,
                        before=before,
                        at=at,
                        cause=cause,
                        node=node,
                        assigned=alike.assigned,
                        adding=alike.adding,
                        removing=alike.removing,
                        leader=alike.leader,
                        leader_epoch=alike.leader_epoch,
                        isr=alike.isr,
                        loss=losses.get(number, ""),
                    )
    return found


def _now(row: Partition) -> Change:
    """The row as it is: it has not changed since."""
    return Change(
        partition=row.partition,
        version=row.version,
        before=0,
        at=row.changed_at,
        cause="",
        node="",
        assigned=row.assigned,
        adding=row.adding,
        removing=row.removing,
        leader=row.leader,
        leader_epoch=row.leader_epoch,
        isr=row.isr,
        loss="",
    )
