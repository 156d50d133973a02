"""This room words a controller turn for people: its cause, its numbers, and who is woken by it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from controller.core import events as told
from controller.core import records as facts
from muster.messages.link.from_broker import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    UnusableLogs,
)
from muster.messages.link.rows import NO_LEADER, AlikePartitions
from runtime.ports import Entry

NAMES_SHOWN: Final = 20
"""How many names a summary lists; the records beside it hold them all."""

_CAUSES: Final[dict[type, str]] = {
    told.TookOver: "took the controller's lease",
    told.LinkClosed: "a link closed",
    told.ProposalsReady: "a worker proposed leaders",
    AlterPartition: "a leader changed its in-sync replicas",
    UnusableLogs: "a broker has logs that cannot be used",
    CreateTopics: "topics were asked for",
    DeleteTopics: "topics were to be deleted",
    AlterReassignments: "partitions were to be moved",
    CreatePartitions: "partitions were asked for",
    AllocateProducerIds: "a broker needs producer ids",
}


def entry(events: Sequence[told.Event], records: Sequence[facts.ClusterRecord]) -> Entry:
    """What the journal shows of one turn."""
    by_kind: dict[type, list[facts.ClusterRecord]] = {}
    for record in records:
        by_kind.setdefault(type(record), []).append(record)
    fenced, registered = _brokers(records)
    created = [r.alike for r in records if isinstance(r, facts.PartitionsCreated)]
    changed = [r.alike for r in records if isinstance(r, facts.PartitionsChanged)]
    summary: dict[str, object] = {
        "metadata_version": next((r.version for r in records if isinstance(r, facts.TurnStamped)), None),
        "brokers_fenced": fenced,
        "brokers_registered": registered,
        "topics": [r.row.name for r in records if isinstance(r, facts.TopicCreated)][:NAMES_SHOWN],
        "topics_grown": [r.row.name for r in records if isinstance(r, facts.TopicChanged)][:NAMES_SHOWN],
        "topics_deleted": [r.name for r in records if isinstance(r, facts.TopicDeleted)][:NAMES_SHOWN],
        "reassignments": _reassignments(records),
        "partitions_created": _count(created),
        "partitions_changed": _count(changed),
        "partitions_without_leader": _count(alike for alike in changed if alike.leader == NO_LEADER),
        "set_back": [r.why for r in records if isinstance(r, facts.SetBackProven)],
        "possible_losses": len(by_kind.get(facts.PossibleLoss, ())),
        "work_offered": [f"{r.kind} {r.key}" for r in records if isinstance(r, facts.WorkOffered)],
    }
    return Entry(_cause(events, fenced), {name: value for name, value in summary.items() if value})


def _count(alike: Iterable[AlikePartitions]) -> int:
    return sum(len(one.partitions) for one in alike)


def _brokers(records: Sequence[facts.ClusterRecord]) -> tuple[list[int], list[int]]:
    rows = [record.row for record in records if isinstance(record, facts.BrokerChanged)]
    return [row.broker_id for row in rows if not row.live], [row.broker_id for row in rows if row.live]


def _reassignments(records: Sequence[facts.ClusterRecord]) -> dict[str, int]:
    """How many were asked for, began or ended, by the phase that they are in now."""
    changed = (record.row.phase for record in records if isinstance(record, facts.ReassignmentChanged))
    return dict(Counter(map(str, changed)))


def _cause(events: Sequence[told.Event], fenced: Sequence[int]) -> str:
    causes: Counter[str] = Counter()
    for event in events:
        if isinstance(event, told.Hello):
            causes[f"broker {event.frame.broker_id} said hello"] += 1
            continue
        kind = type(event.frame if isinstance(event, told.Heard) else event)
        if kind in _CAUSES:
            causes[_CAUSES[kind]] += 1
    for broker_id in fenced:
        causes[f"broker {broker_id} was silent"] += 1
    if not causes:
        return "time passed"
    words = [cause if count == 1 else f"{cause} ({count} times)" for cause, count in causes.items()]
    return "; ".join(words)[:200]


def wake_names(records: Sequence[facts.ClusterRecord]) -> tuple[str, ...]:
    """Whom a turn concerns: `topics`, `brokers`, `partitions`, and `cluster` for anybody."""
    kinds = {type(record) for record in records}
    names = []
    if kinds & {facts.TopicCreated, facts.TopicChanged, facts.TopicDeleted}:
        names.append("topics")
    if kinds & {facts.BrokerChanged, facts.SetBackProven}:
        names.append("brokers")
    if kinds & {facts.PartitionsCreated, facts.PartitionsChanged, facts.TopicDeleted}:
        names.append("partitions")
    if kinds:
        names.append("cluster")
    return tuple(names)
