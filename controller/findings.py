"""This room finds what is wrong with brokers and partitions, since when, and because of what."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from controller import catching_up, conditions, leases, losses, move_queries, processes, queries
from runtime.models import Refusal
from runtime.ports import CONTROLLER_LANE
from runtime.refusals import SHOWN_HOURS, is_of_the_database

CRITICAL, WARNING = "critical", "warning"
_NAMED = 4
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_READ = 200
_FENCED_ONE_BY_ONE = 4
"""So many brokers are a finding each; more are one."""
_LEAVES_WITHIN = timedelta(minutes=1)
"""Who is stopped leaves the in-sync replicas first, and is fenced when its process has ended."""
_PARTITION_FINDINGS = (
    ("partitions_offline", CRITICAL, "offline"),
    ("partitions_under_min_isr", CRITICAL, "under-min-isr"),
    ("partitions_one_copy", WARNING, "one-copy"),
)
_LOG_FINDINGS = (("logs_offline", conditions.OFFLINE), ("logs_damaged", conditions.DAMAGED))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that needs a person; `kind` names the template that words it, `facts` fill it in."""

    kind: str
    severity: str
    since: datetime | None
    facts: dict[str, Any] = field(default_factory=dict)
    groups: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The template that words it."""
        return f"findings/{self.kind}.html"


def most_urgent_first(findings: Sequence[Finding]) -> list[Finding]:
    """Critical before warning, then what lasts longest; what began nobody knows when stands first."""
    return sorted(findings, key=lambda one: (one.severity != CRITICAL, one.since or _LONG_AGO))


def find(
    rows: Sequence[queries.BrokerRow], health: queries.Health, orphans: leases.Orphans, work: leases.Work
) -> list[Finding]:
    """What is wrong now. One kind of trouble is one finding."""
    live = queries.live_ids(row.broker for row in rows)
    fenced = [row for row in rows if row.attention]
    lossy = losses.unacknowledged(_READ)
    # Read once, and only where anything is open: a fenced broker and the loss both tell of it.
    cut = losses.waited_for() if lossy.rows else []
    found = _of_fenced(fenced, live, health, cut) + _of_disks(rows) + _of_logs(rows)
    if proofs := [row.broker.set_back for row in rows if row.broker.set_back]:
        found.append(Finding("database_set_back", CRITICAL, None, {"proofs": proofs}))
    if orphans.lanes:
        controller = CONTROLLER_LANE in orphans.lanes
        facts = {"number": len(orphans.lanes), "lanes": orphans.lanes, "controller": controller}
        facts |= {"shards": len(orphans.lanes) - controller, "only_reads": orphans.only_reads}
        facts |= {"held_by": orphans.nodes[:_NAMED], "more": max(0, len(orphans.nodes) - _NAMED)}
        found.append(Finding("lanes_without_owner", CRITICAL, orphans.since, facts))
    if work.waiting:
        facts = {"number": work.waiting, "groups": work.groups}
        found.append(Finding("work_waits", WARNING, work.waiting_since, facts, work.groups))
    elif work.by_spares:
        found.append(Finding("workers_away", WARNING, work.by_spares_since, {"number": work.by_spares}))
    for kind, severity, trouble in _PARTITION_FINDINGS:
        number = getattr(health, trouble.replace("-", "_"))
        # The count and the rows are two statements: between them the trouble may have gone.
        partitions = queries.troubled_partitions(live, trouble, _READ) if number else []
        if partitions:
            found.append(_about(kind, severity, partitions, number, rows))
    return found + _of_losses(lossy, cut)


def of_refusals(rows: Sequence[Refusal]) -> list[Finding]:
    """What turns refused, newest first, by a mistake of ours or of what the database did not take; the groups
    among it suffer from it.
    """
    if not rows:
        return []
    of_groups = [row.key for row in rows if row.lane != CONTROLLER_LANE and row.key]
    facts = {
        "number": sum(row.number for row in rows),
        "rows": rows[:_NAMED],
        "more": max(0, len(rows) - _NAMED),
        "newest": rows[0],
        "nodes": sorted({row.node for row in rows}),
        "by_database": all(is_of_the_database(row.error) for row in rows),
        "by_itself": any(row.lane == CONTROLLER_LANE and not row.events for row in rows),
        "hours": SHOWN_HOURS,
    }
    groups = tuple(dict.fromkeys(of_groups))
    return [Finding("requests_refused", WARNING, min(row.first_at for row in rows), facts, groups)]


def of_nodes(there: Sequence[processes.Process]) -> list[Finding]:
    """Nodes that fell silent without a word: they died, or hang. Where none is left, lanes have no owner."""
    nodes = [one for one in there if one.kind == "node"]
    silent = sorted(
        (one for one in nodes if one.state == processes.SILENT), key=lambda one: one.since or _LONG_AGO
    )
    if not silent or len(silent) == len(nodes):
        return []
    names = [one.name for one in silent]
    facts = {"number": len(names), "names": names[:_NAMED], "more": max(0, len(names) - _NAMED)}
    return [Finding("node_silent", WARNING, silent[0].since, facts | {"hours": processes.SILENT_HOURS})]


def of_making_way(made_way: Sequence[leases.MadeWay]) -> list[Finding]:
    """Nodes that brokers did not reach, and that left the controller to another for it."""
    if not made_way:
        return []
    facts = {"number": len(made_way), "names": [one.node for one in made_way], "last": made_way[-1]}
    return [Finding("node_apart", WARNING, made_way[0].since, facts | {"hours": SHOWN_HOURS})]


def of_moves(moves: move_queries.MoveCounts) -> list[Finding]:
    """What is wrong with reassignments: they wait for somebody, stand still, or are throttled too much."""
    found = _of_stalled(moves.stalled)
    if moves.moving:
        found += _of_still(catching_up.standing_still(_READ)) + _of_throttles(catching_up.under_way())
    return found


def _of_still(still: Sequence[catching_up.StandsStill]) -> list[Finding]:
    """Moves that nothing comes of, though whoever copies and whoever is copied from lives."""
    if not still:
        return []
    names = list(dict.fromkeys(one.name for one in still))
    facts = {
        "number": len(names),
        "names": names[:_NAMED],
        "more": max(0, len(names) - _NAMED),
        "first": still[0],
        "brokers": sorted({one.broker_id for one in still}),
    }
    return [Finding("moves_stand_still", WARNING, still[0].since, facts)]


def _of_throttles(behind: Sequence[catching_up.Behind]) -> list[Finding]:
    """Throttles that are not above what producers write to what is copied: it never comes into sync."""
    if not behind:
        return []
    since = min((one.since for one in behind if one.since), default=None)
    facts = {
        "first": behind[0],
        "brokers": sorted({one.broker_id for one in behind}),
        "never": any(one.never for one in behind),
    }
    return [Finding("throttle_too_low", WARNING, since, facts)]


def of_plan(plan_id: UUID, stalled: int) -> list[Finding]:
    """What is wrong with the moves of one plan, of which so many cannot end: they wait, or stand still."""
    return _of_stalled(stalled, plan_id) + _of_still(catching_up.standing_still(_READ, plan_id))


def _of_stalled(number: int, plan_id: UUID | None = None) -> list[Finding]:
    # Between the count and the rows they may have gone on.
    rows = move_queries.stalled(_READ, plan_id) if number else []
    if not rows:
        return []
    facts = {
        "number": number,
        "names": [row.name for row in rows[:_NAMED]],
        "more": max(0, number - _NAMED),
        "brokers": (brokers := sorted({broker for row in rows for broker in row.waits_for})),
        "kept_out": (kept_out := queries.kept_out(brokers)),
        "to_start": [broker for broker in brokers if broker not in kept_out],
        "leaderless": sum(1 for row in rows if row.leaderless),
    }
    return [Finding("reassignments_wait", WARNING, rows[0].waits_since, facts)]


def of_broker(row: queries.BrokerRow, live: Sequence[int], health: queries.Health) -> list[Finding]:
    """What is wrong with one broker, if the brokers in `live` have a session."""
    fenced = [row] if row.attention else []
    cut = losses.waited_for() if fenced else []
    found = _of_fenced(fenced, live, health, cut) + _of_disks([row]) + _of_logs([row], row.broker.broker_id)
    if row.broker.set_back:
        found.append(Finding("database_set_back", CRITICAL, None, {"proofs": [row.broker.set_back]}))
    return most_urgent_first(found)


def of_topic(rows: Sequence[queries.BrokerRow], topic: queries.TopicRow) -> list[Finding]:
    """What is wrong with the partitions of one topic."""
    live = queries.live_ids(row.broker for row in rows)
    found = []
    for kind, severity, trouble in _PARTITION_FINDINGS:
        number = getattr(topic, trouble.replace("-", "_"))
        partitions = queries.troubled_partitions(live, trouble, _READ, topic.topic_id) if number else []
        if partitions:
            found.append(_about(kind, severity, partitions, number, rows))
    lossy = losses.unacknowledged(_READ, topic.topic_id)
    cut = losses.waited_for(topic.topic_id) if lossy.rows else []
    return most_urgent_first(found + _of_losses(lossy, cut))


def _of_fenced(
    fenced: Sequence[queries.BrokerRow], live: Sequence[int], health: queries.Health, cut: Sequence[int]
) -> list[Finding]:
    """Brokers without a session; those in `cut` hold what elections lost."""
    # Who knows more than the database holds is kept out by that: to start it again helps nobody.
    away = [row for row in fenced if not row.broker.set_back]
    together = [away] if len(away) > _FENCED_ONE_BY_ONE else [[row] for row in away]
    return [
        Finding(
            "broker_fenced",
            WARNING,
            min(row.broker.changed_at for row in rows),
            {
                "rows": rows,
                "row": rows[0],
                "health": health,
                "replicas": sum(row.replicas for row in rows),
                "none_live": not live,
                "cut": [row.broker.broker_id for row in rows if row.broker.broker_id in cut],
            },
        )
        for rows in together
    ]


def _of_disks(rows: Sequence[queries.BrokerRow]) -> list[Finding]:
    """Brokers that take no records for want of room."""
    short = [(row.short_since, row) for row in rows if row.short_since]
    if not short:
        return []
    facts = {"rows": [row for _, row in short], "row": short[0][1]}
    return [Finding("broker_disk_full", CRITICAL, min(since for since, _ in short), facts)]


def _of_logs(rows: Sequence[queries.BrokerRow], broker_id: int | None = None) -> list[Finding]:
    """Logs that live brokers, or one of them, cannot use, or that lack what they once held."""
    if not any(row.offline_logs or row.damaged_logs for row in rows):
        return []
    found = []
    for kind, state in _LOG_FINDINGS:
        logs = conditions.logs(states=(state,), broker_id=broker_id, limit=_READ)
        if logs:
            facts = {
                "number": sum(getattr(row, f"{state}_logs") for row in rows) or len(logs),
                "first": logs[0],
                "names": list(dict.fromkeys(log.name for log in logs))[:_NAMED],
                "brokers": sorted({log.broker_id for log in logs}),
                "led": any(log.leader == log.broker_id for log in logs),
            }
            found.append(Finding(kind, WARNING, min(log.since for log in logs), facts))
    return found


def _of_losses(found: losses.Open, waits_for: Sequence[int]) -> list[Finding]:
    """Elections that lost records, or may have, and that nobody has acknowledged."""
    if not found.rows:
        return []
    facts = {
        "number": found.number,
        "first": found.rows[0],
        "names": list(dict.fromkeys(one.name for one in found.rows))[:_NAMED],
        "lost": found.lost,
        "unknown": any(one.lost is None for one in found.rows),
        "waits_for": waits_for,
    }
    return [Finding("records_lost", WARNING, min(one.row.elected_at for one in found.rows), facts)]


def _about(
    kind: str,
    severity: str,
    partitions: Sequence[queries.PartitionRow],
    number: int,
    rows: Sequence[queries.BrokerRow],
) -> Finding:
    live = queries.live_ids(row.broker for row in rows)
    fenced = [row for row in rows if row.attention]
    because = [row for row in fenced if any(_is_cause(row, partition) for partition in partitions)]
    facts = {
        "number": number,
        "partitions": partitions,
        "names": [partition.name for partition in partitions[:_NAMED]],
        "first": partitions[:_NAMED],
        "more": max(0, number - _NAMED),
        "missing": sorted({broker for one in partitions for broker in _missing(one, live)}),
        "lags": _lags(partitions, rows),
        "because": because,
        "to_start": [row for row in because if not row.broker.set_back and _helps(row, partitions)],
        "kept_out": [row for row in fenced if row.broker.set_back and _holds_any(row, partitions)],
        "unproven": sum(1 for partition in partitions if partition.offline and partition.unproven),
        "never_led": all(not partition.isr for partition in partitions),
        "electable": any(broker in live for partition in partitions for broker in partition.assigned),
    }
    return Finding(kind, severity, min(partition.since for partition in partitions), facts)


def _missing(partition: queries.PartitionRow, live: Sequence[int]) -> list[int]:
    """Who is to be in sync, and is not, or does not count, as it has no session or lags."""
    counts = [broker for broker in partition.isr if broker in live and broker not in partition.lagging]
    return [broker for broker in partition.assigned if broker not in (*counts, *partition.adding)]


def _lags(
    partitions: Sequence[queries.PartitionRow], rows: Sequence[queries.BrokerRow]
) -> list[dict[str, Any]]:
    """Who is in the ISR and lags, as a leader says; of each leader one, with where it is reached."""
    behind: dict[int, set[int]] = {}
    for one in partitions:
        if one.lagging:
            behind.setdefault(one.leader, set()).update(one.lagging)
    reached = {row.broker.broker_id: row.broker.endpoints.get("replication", "") for row in rows}
    return [
        {"leader": leader, "brokers": sorted(brokers), "address": reached.get(leader, "")}
        for leader, brokers in sorted(behind.items())[:_NAMED]
    ]


def _holds_any(row: queries.BrokerRow, partitions: Sequence[queries.PartitionRow]) -> bool:
    return any(row.broker.broker_id in partition.assigned for partition in partitions)


def _helps(row: queries.BrokerRow, partitions: Sequence[queries.PartitionRow]) -> bool:
    """Nobody leads again by one that was not in sync: it lacks what was committed without it."""
    broker = row.broker.broker_id
    return any(
        broker in (one.isr if one.offline and one.isr and not one.unproven else one.assigned)
        for one in partitions
    )


def _is_cause(row: queries.BrokerRow, partition: queries.PartitionRow) -> bool:
    """A broker that was lost long after the trouble began did not begin it; but its log is waited for."""
    waits_for_all = partition.offline and partition.unproven
    in_time = waits_for_all or row.broker.changed_at <= partition.since + _LEAVES_WITHIN
    return row.broker.broker_id in partition.assigned and bool(in_time)
