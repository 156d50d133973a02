"""This room words a controller turn for people: its cause, its numbers, and who is woken by it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from controller.core import events as told
from controller.core import records as facts
from controller.links import BrokerLink
from muster.kernel.client_quotas import ANONYMOUS, ENTITY_TYPES
from muster.messages.link.brokers import CordonBroker, UnregisterBroker
from muster.messages.link.configs import AlterConfigs
from muster.messages.link.from_broker import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    BrokerPing,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Leaving,
    RemovePartitions,
    UnusableLogs,
    Wish,
)
from muster.messages.link.log_ends import LogEnds
from muster.messages.link.losses import AcknowledgeLosses
from muster.messages.link.plans import (
    ApprovePlan,
    CancelPlan,
    PausePlan,
    ProposePlan,
    RunPlan,
    ThrottlePlan,
)
from muster.messages.link.quotas import AlterClientQuotas
from muster.messages.link.rows import NO_LEADER, AlikePartitions
from runtime.ports import Entry

NAMES_SHOWN: Final = 20
"""How many names a summary lists; the records beside it hold them all."""

LETTERS_SHOWN: Final = 80

ASKED_BY_A_CLIENT: Final = "asked by a Kafka client"
"""Why, of whatever came by Kafka's protocol, which knows no reasons."""

_CAUSES: Final[dict[type, str]] = {
    told.TookOver: "took the controller's lease",
    told.LinkClosed: "a link closed",
    told.BrokerGone: "a broker's process ended",
    told.ProposalsReady: "a worker proposed leaders",
    told.PlanComputed: "a worker computed a plan",
    AlterPartition: "a leader changed its in-sync replicas",
    Leaving: "a broker is about to stop",
    UnusableLogs: "a broker has logs that cannot be used",
    CreateTopics: "topics were asked for",
    DeleteTopics: "topics were to be deleted",
    AlterReassignments: "partitions were to be moved",
    CreatePartitions: "partitions were asked for",
    RemovePartitions: "partitions were to be removed",
    AlterConfigs: "configs were to be changed",
    ElectLeaders: "leaders were to be elected",
    AllocateProducerIds: "a broker needs producer ids",
    ProposePlan: "a plan was wanted",
    ApprovePlan: "a plan was approved",
    RunPlan: "a plan was to run",
    PausePlan: "a plan was to pause",
    CancelPlan: "a plan was to be cancelled",
    ThrottlePlan: "a plan was given another rate",
    AlterClientQuotas: "quotas of clients were to be changed",
    CordonBroker: "a broker was to be cordoned, or not any more",
    UnregisterBroker: "a broker was to be unregistered",
    BrokerPing: "a broker told what an election lost",
    LogEnds: "a broker showed its logs",
    AcknowledgeLosses: "what elections lost was to be acknowledged",
}


def entry(events: Sequence[told.Event], records: Sequence[facts.ClusterRecord]) -> Entry:
    """What the journal shows of one turn."""
    by_kind: dict[type, list[facts.ClusterRecord]] = {}
    for record in records:
        by_kind.setdefault(type(record), []).append(record)
    fenced, leaving, registered = _brokers(records)
    created = [r.alike for r in records if isinstance(r, facts.PartitionsCreated)]
    changed = [r.alike for r in records if isinstance(r, facts.PartitionsChanged)]
    summary: dict[str, object] = {
        "metadata_version": next((r.version for r in records if isinstance(r, facts.TurnStamped)), None),
        "brokers_fenced": fenced,
        "brokers_leaving": leaving,
        "brokers_registered": registered,
        "brokers_cordoned": [
            r.broker_id for r in records if isinstance(r, facts.BrokerCordoned) and r.cordoned
        ],
        "brokers_uncordoned": [
            r.broker_id for r in records if isinstance(r, facts.BrokerCordoned) and not r.cordoned
        ],
        "brokers_unregistered": [r.broker_id for r in records if isinstance(r, facts.BrokerUnregistered)],
        "topics": [r.row.name for r in records if isinstance(r, facts.TopicCreated)][:NAMES_SHOWN],
        "topics_grown": _grown(records)[:NAMES_SHOWN],
        "topics_deleted": [r.name for r in records if isinstance(r, facts.TopicDeleted)][:NAMES_SHOWN],
        "topics_shrunk": [r.name for r in records if isinstance(r, facts.PartitionsRemoved)][:NAMES_SHOWN],
        "configs": [_config(r) for r in records if isinstance(r, facts.ConfigChanged)][:NAMES_SHOWN],
        "reassignments": _reassignments(records),
        "plans": [
            f"{r.row.options.kind} {r.row.id}: {r.row.phase}"
            for r in records
            if isinstance(r, facts.PlanChanged)
        ],
        "quotas": _quotas(records),
        "partitions_created": _count(created),
        "partitions_removed": sum(r.count for r in records if isinstance(r, facts.PartitionsRemoved)),
        "partitions_changed": _count(changed),
        "partitions_without_leader": _count(alike for alike in changed if alike.leader == NO_LEADER),
        "set_back": [r.why for r in records if isinstance(r, facts.SetBackProven)],
        "logs_compared": list(islice(_compared(records), NAMES_SHOWN)),
        "possible_losses": len(by_kind.get(facts.PossibleLoss, ())),
        "losses_told": [_loss(r) for r in records if isinstance(r, facts.LossChanged)][:NAMES_SHOWN],
        "asked": _asked(events),
        "work_offered": [f"{r.kind} {r.key}" for r in records if isinstance(r, facts.WorkOffered)],
    }
    return Entry(_cause(events, fenced), {name: value for name, value in summary.items() if value})


def _asked(events: Sequence[told.Event]) -> list[dict[str, str]]:
    """Who asked for what, why, and where: by a row, or through a broker as Kafka's clients do."""
    asked = []
    for event in events:
        if not isinstance(event, told.Heard) or not isinstance(event.frame, Wish):
            continue
        if isinstance(event.frame, AllocateProducerIds):
            # The broker's own: the cause says so.
            continue
        frame, link = event.frame, event.link
        by, why, through = getattr(frame, "principal", ""), getattr(frame, "reason", ""), ""
        request = ""
        if isinstance(link, told.RequestSeat):
            by, why, request = link.principal, link.reason, link.id
        elif isinstance(link, BrokerLink):
            through = f"broker {link.broker_id}"
        one = {
            "what": type(frame).__name__,
            "by": by or ANONYMOUS,
            "why": why or ASKED_BY_A_CLIENT,
            "through": through,
            "request": request,
        }
        asked.append({name: value for name, value in one.items() if value})
    return asked[:NAMES_SHOWN]


def _count(alike: Iterable[AlikePartitions]) -> int:
    return sum(len(one.partitions) for one in alike)


def _brokers(records: Sequence[facts.ClusterRecord]) -> tuple[list[int], list[int], list[int]]:
    """Who was fenced, who is about to stop, and who registered."""
    cordoned = {record.broker_id for record in records if isinstance(record, facts.BrokerCordoned)}
    changed = (record.row for record in records if isinstance(record, facts.BrokerChanged))
    rows = [row for row in changed if row.broker_id not in cordoned]
    live = [row for row in rows if row.live]
    return (
        [row.broker_id for row in rows if not row.live],
        [row.broker_id for row in live if row.leaving],
        [row.broker_id for row in live if not row.leaving],
    )


def _grown(records: Sequence[facts.ClusterRecord]) -> list[str]:
    """Topics that have more partitions than before: others changed have other configs."""
    added = {record.alike.topic_id for record in records if isinstance(record, facts.PartitionsCreated)}
    changed = (record.row for record in records if isinstance(record, facts.TopicChanged))
    return [row.name for row in changed if row.topic_id in added]


def _config(changed: facts.ConfigChanged) -> str:
    """`orders retention.ms: 1000 → 2000`; the record beside it holds a long value whole."""
    before, after = (
        "not set" if value is None else value if len(value) <= LETTERS_SHOWN else value[:LETTERS_SHOWN] + "…"
        for value in (changed.before, changed.after)
    )
    return f"{changed.resource} {changed.key}: {before} → {after}"


def _loss(changed: facts.LossChanged) -> str:
    """`orders-3 in leader epoch 7: broker 2 began at 90; broker 1 was cut from 120 to 90`."""
    row = changed.row
    said = []
    if row.start_offset is not None:
        where = "does not know where it began" if row.start_offset < 0 else f"began at {row.start_offset}"
        said.append(f"broker {row.leader} {where}")
    for cut in row.cuts:
        if cut.end_offset < 0:
            words = "does not know what it held, its log could not be read before it went"
        elif cut.cut_to < 0:
            words = f"held {cut.end_offset} and does not know from where on they were not its leader's"
        elif cut.cut_to < cut.end_offset:
            words = f"was cut from {cut.end_offset} to {cut.cut_to}"
        else:
            words = "had nothing to lose"
        said.append(f"broker {cut.broker_id} {words}")
    if row.acknowledged:
        said.append(f"acknowledged by {row.acknowledged_by or ANONYMOUS}")
    return f"{row.topic}-{row.partition} in leader epoch {row.leader_epoch}: {'; '.join(said)}"


def _compared(records: Sequence[facts.ClusterRecord]) -> Iterator[str]:
    """`orders-3: broker 2 leads, logs end at 90 (broker 1, epoch 7), 100 (broker 2, epoch 8)`."""
    for made in records:
        if not isinstance(made, facts.LogsCompared):
            continue
        for partition, of_each in ((one.partition, one.ends) for one in made.logs):
            of_all = of_each if len(of_each) == len(made.brokers) else of_each * len(made.brokers)
            ends = ", ".join(
                f"{end.end_offset} (broker {broker_id}, epoch {end.last_epoch}"
                f"{f', led in {end.led_epoch}' if end.led_epoch > end.last_epoch else ''})"
                for broker_id, end in zip(made.brokers, of_all, strict=True)
            )
            shown = f"logs end at {ends}" if ends else "no log was shown"
            yield f"{made.topic}-{partition}: broker {made.leader} leads, {shown}"


def _reassignments(records: Sequence[facts.ClusterRecord]) -> dict[str, int]:
    """How many were asked for, began or ended, by the phase that they are in now."""
    phases = Counter(
        str(record.row.phase) for record in records if isinstance(record, facts.ReassignmentChanged)
    )
    for record in records:
        if isinstance(record, facts.MovesFailed):
            phases[str(facts.Phase.FAILED)] += len(record.partitions)
    return dict(phases)


def _quotas(records: Sequence[facts.ClusterRecord]) -> list[str]:
    """Whose quotas are others now, by the words of Kafka's tools."""
    rows = [record.row for record in records if isinstance(record, facts.ClientQuotaChanged)][:NAMES_SHOWN]
    return [
        " ".join(
            f"{kind}={name or '<default>'}"
            for kind, name in zip(ENTITY_TYPES, row.key, strict=True)
            if name is not None
        )
        for row in rows
    ]


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
    """Whom a turn concerns: `topics`, `brokers`, `moves`, `partitions`, `answered` for who asked by a row,
    and `cluster` for anybody.
    """
    kinds = {type(record) for record in records}
    names = []
    if kinds & {facts.TopicCreated, facts.TopicChanged, facts.TopicDeleted}:
        names.append("topics")
    if kinds & {
        facts.BrokerChanged,
        facts.BrokerUnregistered,
        facts.SetBackProven,
        facts.BrokerConfigsChanged,
    }:
        names.append("brokers")
    if kinds & {
        facts.ReassignmentChanged,
        facts.MovesFailed,
        facts.PlanChanged,
        facts.PlanStepsAdded,
        facts.PlanStepsChanged,
    }:
        names.append("moves")
    if kinds & {
        facts.PartitionsCreated,
        facts.PartitionsChanged,
        facts.PartitionsRemoved,
        facts.TopicDeleted,
    }:
        names.append("partitions")
    if facts.ClientQuotaChanged in kinds:
        names.append("quotas")
    if facts.RequestAnswered in kinds:
        names.append("answered")
    if kinds - {facts.RequestAnswered, facts.RequestBegun}:
        names.append("cluster")
    return tuple(names)
