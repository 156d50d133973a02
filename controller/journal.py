"""This room reads the controller's turns from the journal, for people."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from django.db import connection

from muster.messages.link.rows import NO_LEADER, AlikePartitions
from runtime.models import JournalEntry

_WORDS = {
    "BrokerChanged": ("broker changed", "brokers changed"),
    "BrokerCordoned": ("cordon set or lifted", "cordons set or lifted"),
    "BrokerUnregistered": ("broker unregistered", "brokers unregistered"),
    "TopicCreated": ("topic created", "topics created"),
    "TopicChanged": ("topic changed", "topics changed"),
    "ConfigChanged": ("config changed", "configs changed"),
    "TopicDeleted": ("topic deleted", "topics deleted"),
    "PartitionsCreated": ("partition created", "partitions created"),
    "PartitionsRemoved": ("partition removed", "partitions removed"),
    "PartitionsChanged": ("partition changed", "partitions changed"),
    "ReassignmentChanged": ("reassignment changed", "reassignments changed"),
    "PlanChanged": ("plan changed", "plans changed"),
    "ClientQuotaChanged": ("quota changed", "quotas changed"),
    "SetBackProven": ("proof that the database was set back", "proofs that the database was set back"),
    "PossibleLoss": ("possible loss", "possible losses"),
    "LogsCompared": ("election by how far logs go", "elections by how far logs go"),
    "LossChanged": ("word of what an election lost", "words of what elections lost"),
    "ProducerIdsGiven": ("block of producer ids given", "blocks of producer ids given"),
}


@dataclass(frozen=True, slots=True)
class ControllerTurn:
    """One turn of the controller: when, why, and what it did in words."""

    at: datetime
    cause: str
    did: str
    elected: int
    without_leader: int
    possible_loss: bool


_TURNS_LOOKED_AT = 2_000
_OF_BROKER = """
    SELECT at, cause, summary FROM (
        SELECT seq, at, cause, summary FROM journal WHERE lane = 'controller'
        ORDER BY seq DESC LIMIT %(looked_at)s) AS lately
    WHERE summary @> %(fenced)s::jsonb OR summary @> %(registered)s::jsonb
    ORDER BY seq DESC LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class BrokerTurn:
    """A turn in which a broker came or went: when, why, and how many partitions changed with it."""

    at: datetime
    cause: str
    fenced: bool
    changed: int
    without_leader: int


def turns_of_broker(broker_id: int, most: int) -> list[BrokerTurn]:
    """When a broker came and went, newest first; no further back than _TURNS_LOOKED_AT turns."""
    values: dict[str, int | str] = {
        "looked_at": _TURNS_LOOKED_AT,
        "fenced": json.dumps({"brokers_fenced": [broker_id]}),
        "registered": json.dumps({"brokers_registered": [broker_id]}),
        "most": most,
    }
    with connection.cursor() as cursor:
        cursor.execute(_OF_BROKER, values)
        return [
            BrokerTurn(
                at,
                cause,
                broker_id in summary.get("brokers_fenced", ()),
                summary.get("partitions_changed", 0),
                summary.get("partitions_without_leader", 0),
            )
            for at, cause, text in cursor.fetchall()
            for summary in (json.loads(text) if isinstance(text, str) else text,)
        ]


def last_turns(most: int) -> list[ControllerTurn]:
    """The last turns of the controller that changed a broker, a topic or a partition, newest first."""
    rows = (
        JournalEntry.objects.filter(lane="controller").order_by("-id").values_list("at", "cause", "records")
    )
    told = (_turn(at, cause, records) for at, cause, records in rows[: most * 5])
    return [turn for turn in told if turn.did][:most]


def _turn(at: datetime, cause: str, records: Iterable[Mapping[str, Any]]) -> ControllerTurn:
    records = list(records)
    counted: Counter[Any] = Counter()
    for record in records:
        kind = record.get("record")
        many = record["count"] if kind == "PartitionsRemoved" else 1
        if kind == "LogsCompared":
            # A record of before is about one partition.
            many = len(record.get("logs", (kind,)))
        counted[kind] += len(_alike(record).partitions) if "alike" in record else many
    words = [
        f"{counted[tag]} {one if counted[tag] == 1 else many}"
        for tag, (one, many) in _WORDS.items()
        if counted[tag]
    ]
    changed = [_alike(record) for record in records if record.get("record") == "PartitionsChanged"]
    without = sum(len(one.partitions) for one in changed if one.leader == NO_LEADER)
    led = sum(len(one.partitions) for one in changed) - without
    return ControllerTurn(at, cause, ", ".join(words), led, without, bool(counted["PossibleLoss"]))


def _alike(record: Mapping[str, Any]) -> AlikePartitions:
    return msgspec.convert(record["alike"], AlikePartitions)
