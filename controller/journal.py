"""This room reads the controller's turns from the journal, for people."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from muster.messages.link.rows import NO_LEADER, AlikePartitions
from runtime.models import JournalEntry

_WORDS = {
    "BrokerChanged": ("broker changed", "brokers changed"),
    "TopicCreated": ("topic created", "topics created"),
    "TopicChanged": ("topic grown", "topics grown"),
    "TopicDeleted": ("topic deleted", "topics deleted"),
    "PartitionsCreated": ("partition created", "partitions created"),
    "PartitionsChanged": ("partition changed", "partitions changed"),
    "ReassignmentChanged": ("reassignment changed", "reassignments changed"),
    "SetBackProven": ("proof that the database was set back", "proofs that the database was set back"),
    "PossibleLoss": ("possible loss", "possible losses"),
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
        counted[record.get("record")] += len(_alike(record).partitions) if "alike" in record else 1
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
