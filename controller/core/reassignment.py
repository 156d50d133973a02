"""This room moves partitions to other brokers: asked, begun, switched, cancelled (002 E; replication.md 2).

A partition has its new replicas beside its old ones until the new ones are in sync; then one transaction
switches replicas, ISR, leader and epoch. Nothing of it is timed: a target that is dead only waits.
"""

from collections import Counter
from uuid import UUID, uuid5

import msgspec

from controller.core.draft import Draft
from controller.core.election import never_led
from controller.core.events import LinkId, Say
from controller.core.records import Phase, Reassignment
from controller.core.topics import Refused
from muster.kernel.error_codes import ErrorCode
from muster.kernel.topic_configs import floor
from muster.messages.link.from_broker import AlterReassignments, ListReassignments, WantedReplicas
from muster.messages.link.rows import NO_LEADER, PartitionRow
from muster.messages.link.to_broker import (
    OngoingReassignment,
    OngoingReassignments,
    ReassignmentResult,
    ReassignmentResults,
)


def alter(draft: Draft, link: LinkId, frame: AlterReassignments, fresh: UUID) -> None:
    """Ask for, replace or cancel one reassignment for each partition; the answer leaves with this turn.

    Conformance 186 to 197. Ids follow from `fresh`, which nobody else has.
    """
    named = Counter((one.topic, one.partition) for one in frame.partitions)
    results = []
    for place, wanted in enumerate(frame.partitions):
        error, text = ErrorCode.NONE, ""
        try:
            if named[wanted.topic, wanted.partition] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "the request names this partition twice")
            row = _row(draft, wanted)
            if wanted.replicas is None:
                cancel(draft, row, f"cancelled by {frame.principal}" if frame.principal else "cancelled")
            else:
                _check_target(draft, row, wanted.replicas, frame.may_change_factor)
                _ask(draft, row, wanted, uuid5(fresh, str(place)), frame.principal)
        except Refused as refused:
            error, text = refused.error, refused.text
        results.append(
            ReassignmentResult(topic=wanted.topic, partition=wanted.partition, error=error, text=text)
        )
    answer = ReassignmentResults(correlation_id=frame.correlation_id, results=tuple(results))
    draft.replies.append(Say(link, answer))


def answer_list(draft: Draft, link: LinkId, frame: ListReassignments) -> None:
    """Those that are asked for or under way; what is unknown is left out (conformance 198)."""
    wanted = None if frame.partitions is None else set(frame.partitions)
    ongoing = []
    for one in draft.active_reassignments():
        row = draft.partition(one.key)
        if row is None or (wanted is not None and (one.topic, one.partition) not in wanted):
            continue
        if one.phase is Phase.INIT:
            row = _beginning(draft, row, one.target)
        ongoing.append(OngoingReassignment(one.topic, one.partition, row.assigned, row.adding, row.removing))
    answer = OngoingReassignments(correlation_id=frame.correlation_id, ongoing=tuple(ongoing))
    draft.replies.append(Say(link, answer))


def not_written(frame: AlterReassignments) -> ReassignmentResults:
    """The answer to a request whose turn could not be written."""
    text = "the database did not take it in time; nothing was changed"
    return ReassignmentResults(
        correlation_id=frame.correlation_id,
        results=tuple(
            ReassignmentResult(
                topic=one.topic, partition=one.partition, error=ErrorCode.UNKNOWN_SERVER_ERROR, text=text
            )
            for one in frame.partitions
        ),
    )


# ---------------------------------------------------------------------------------- asking


def _row(draft: Draft, wanted: WantedReplicas) -> PartitionRow:
    """The partition as it is. Raises Refused."""
    topic = draft.topic_named_like(wanted.topic)
    row = draft.partition((topic.topic_id, wanted.partition)) if topic else None
    if topic is None or topic.name != wanted.topic or row is None:
        text = f"there is no partition {wanted.partition} of a topic {wanted.topic}"
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return row


def _check_target(draft: Draft, row: PartitionRow, target: tuple[int, ...], may_change_factor: bool) -> None:
    """Raise Refused unless a partition can be there; a broker that is away may be named (conformance 195)."""
    if not target or len(set(target)) != len(target):
        text = "a partition needs at least one broker, and each at most once"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if unknown := [broker_id for broker_id in target if draft.broker(broker_id) is None]:
        text = f"broker {unknown[0]} never registered"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if not may_change_factor and len(target) != row.settled_count:
        text = f"the partition has {row.settled_count} replicas, and the request keeps their number"
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, text)


def _ask(draft: Draft, row: PartitionRow, wanted: WantedReplicas, new_id: UUID, principal: str) -> None:
    """INIT, or in the place of what is active: that one is cancelled and its room taken over."""
    assert wanted.replicas is not None
    active = draft.reassignment(row.key)
    in_progress = active is not None and active.phase is Phase.IN_PROGRESS
    new = Reassignment(
        id=new_id,
        topic_id=row.topic_id,
        topic=wanted.topic,
        partition=row.partition,
        origin=active.origin if active is not None and in_progress else row.assigned,
        target=wanted.replicas,
        phase=Phase.IN_PROGRESS if in_progress else Phase.INIT,
        principal=principal,
    )
    if in_progress:
        changed = _beginning(draft, row, wanted.replicas)
        _require_isr(draft, changed)
        draft.put_partition(changed)
    if active is not None:
        draft.put_reassignment(
            msgspec.structs.replace(active, phase=Phase.CANCELLED, reason="replaced by another")
        )
    draft.put_reassignment(new)


def _beginning(draft: Draft, row: PartitionRow, target: tuple[int, ...]) -> PartitionRow:
    """The row while it moves to `target`: new replicas first, those that go behind them.

    What an earlier reassignment was adding and this one does not want is dropped at once, with an epoch.
    """
    settled = tuple(b for b in row.assigned if b not in row.adding)
    removing = tuple(b for b in settled if b not in target)
    adding = tuple(b for b in target if b not in settled)
    return _with_replicas(draft, row, target + removing, adding, removing)


def cancel(draft: Draft, row: PartitionRow, reason: str, outcome: Phase = Phase.CANCELLED) -> None:
    """The partition stays where it was, or is again; raises Refused if too few in-sync replicas were left."""
    active = draft.reassignment(row.key)
    if active is None:
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "nothing moves this partition")
    if active.phase is Phase.IN_PROGRESS:
        changed = _with_replicas(draft, row, active.origin, (), ())
        _require_isr(draft, changed)
        draft.put_partition(changed)
    draft.put_reassignment(msgspec.structs.replace(active, phase=outcome, reason=reason))


def _require_isr(draft: Draft, changed: PartitionRow) -> None:
    """Raise Refused unless what stays holds what is committed: acknowledged records lie on the ISR alone."""
    if never_led(changed):
        return
    fewest = max(1, floor(draft.policy(changed.topic_id).min_insync_replicas, changed.settled_count))
    is_led = changed.leader != NO_LEADER or draft.live().isdisjoint(changed.isr)
    if len(changed.isr) < fewest or not is_led:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{len(changed.isr)} of the replicas that would stay are in sync, and {fewest} must be",
        )


# ---------------------------------------------------------------------------------- going on


def go_on(draft: Draft) -> None:
    """At the end of every turn: switch what is in sync, begin what there is room for.

    What is too much for this turn is left to the next.
    """
    draft.memory.reassigning = False
    active = draft.active_reassignments()
    if not active:
        return
    busy: Counter[int] = Counter()
    in_progress = 0
    for one in active:
        if one.phase is Phase.IN_PROGRESS and not _switch(draft, one):
            in_progress += 1
            busy.update(_taken_up(draft, one))
    settings = draft.settings
    for one in active:
        if one.phase is not Phase.INIT:
            continue
        row = draft.partition(one.key)
        assert row is not None
        began = _beginning(draft, row, one.target)
        takes = {*began.adding, row.leader} if began.adding else set()
        if takes and (
            in_progress >= settings.max_reassignments
            or any(busy[broker_id] >= settings.max_reassignments_per_broker for broker_id in takes)
        ):
            continue
        if not draft.take_room():
            draft.memory.reassigning = True
            return
        draft.put_partition(began)
        started = msgspec.structs.replace(one, phase=Phase.IN_PROGRESS, origin=row.assigned)
        draft.put_reassignment(started)
        if not _switch(draft, started):
            in_progress += 1
            busy.update(takes)


def _taken_up(draft: Draft, one: Reassignment) -> set[int]:
    """The brokers that copy for it."""
    row = draft.partition(one.key)
    return {*row.adding, row.leader} if row is not None and row.adding else set()


def _switch(draft: Draft, one: Reassignment) -> bool:
    """Replicas, ISR, leader, epoch and the reassignment in one transaction, once the new ones are in sync.

    Not all of the target must be: one that is kept and dead blocks no drain (conformance 188). But as many as
    the floor of the target demands, one of them live.
    """
    row = draft.partition(one.key)
    assert row is not None
    in_sync, live = set(row.isr), draft.usable(draft.live(), row)
    kept = in_sync.intersection(one.target)
    fewest = max(1, floor(draft.policy(row.topic_id).min_insync_replicas, len(one.target)))
    if not in_sync.issuperset(row.adding) or len(kept) < fewest or live.isdisjoint(kept):
        return False
    draft.put_partition(_with_replicas(draft, row, one.target, (), ()))
    draft.put_reassignment(msgspec.structs.replace(one, phase=Phase.DONE))
    topic = draft.topic(row.topic_id)
    if topic is not None and row.partition == 0 and topic.replication_factor != len(one.target):
        draft.change_topic(msgspec.structs.replace(topic, replication_factor=len(one.target)))
    return True


def _with_replicas(
    draft: Draft,
    row: PartitionRow,
    assigned: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
) -> PartitionRow:
    """The row with these replicas; the epoch rises when one is dropped or the leader goes.

    A dropped replica may still fetch by what it knew: another epoch tells it apart (`switch_no_epoch`).
    """
    isr = tuple(b for b in assigned if b in row.isr)
    leader = row.leader
    if leader not in assigned:
        usable = draft.usable(draft.live(), row)
        leader = next((b for b in isr if b in usable), NO_LEADER)
    is_other = leader != row.leader or not set(row.assigned) <= set(assigned)
    return PartitionRow(
        row.topic_id,
        row.partition,
        assigned,
        leader,
        row.leader_epoch + is_other,
        isr,
        draft.version,
        adding,
        removing,
    )


def topic_deleted(draft: Draft, topic_id: UUID) -> None:
    """What moved its partitions has nothing left to move."""
    for one in draft.active_reassignments():
        if one.topic_id == topic_id:
            draft.put_reassignment(
                msgspec.structs.replace(one, phase=Phase.FAILED, reason="the topic was deleted")
            )
