"""This room moves partitions to other brokers: asked, begun, switched, cancelled (002 E; replication.md 2).

A partition has its new replicas beside its old ones until the new ones are in sync; then one transaction
switches replicas, ISR, leader and epoch. Nothing of it is timed: a target that is dead only waits.
"""

from collections import Counter
from dataclasses import replace
from typing import Final, TypedDict, Unpack
from uuid import UUID, uuid5

import msgspec

from controller.core.draft import Draft
from controller.core.election import LAST_EPOCH, can_be_led_anew, never_led
from controller.core.events import Heard, LinkId, RequestSeat, Say
from controller.core.records import Phase, Reassignment, RequestBegun
from controller.core.settings import ControllerSettings
from controller.core.state import Altering
from controller.core.topics import Refused, check_version, why_unknown
from controller.core.waiting import ALL_BROKERS, LOGS_SHOWN, NOTHING_YET, WaitingMoves
from muster.kernel.error_codes import ErrorCode
from muster.kernel.topic_configs import floor
from muster.messages.link.from_broker import AlterReassignments, ListReassignments, WantedReplicas
from muster.messages.link.rows import NO_LEADER, PartitionKey, PartitionRow
from muster.messages.link.to_broker import (
    OngoingReassignment,
    OngoingReassignments,
    ReassignmentResult,
    ReassignmentResults,
)

LOOKS_PER_TURN: Final = 1_000
"""How many that have not begun one turn looks at; the next goes on."""


def alter(draft: Draft, asked: Heard) -> None:
    """Ask for, replace or cancel one reassignment for each partition, a slice a turn; then it is answered.

    Conformance 186 to 197. Ids follow from `fresh`, which nobody else has. What is more than
    one request may name is refused. Each partition is judged by itself, as it is in its turn. A new owner
    goes on with what stands in a row, behind what was done of it; who asked on a link hears nothing, and may
    ask again.
    """
    frame = asked.frame
    assert isinstance(frame, AlterReassignments)
    named = Counter((one.topic, one.partition) for one in frame.partitions)
    twice = frozenset(name for name, count in named.items() if count > 1)
    draft.memory.altering.append(Altering(asked.link, frame, asked.fresh, twice, asked.begun))
    go_on_altering(draft)


def go_on_altering(draft: Draft) -> None:
    """Requests that are not answered yet, in the order of asking, as far as this turn has room."""
    waiting, draft.memory.altering = draft.memory.altering, []
    for place, one in enumerate(waiting):
        upto = min(len(one.results) + draft.alterations_left, len(one.frame.partitions))
        draft.alterations_left -= upto - len(one.results)
        altered = _altered(draft, one, range(len(one.results), upto))
        results = (*one.results, *altered)
        if upto < len(one.frame.partitions):
            if altered and isinstance(one.link, RequestSeat):
                draft.begun.append(RequestBegun(one.link.id, tuple(altered)))
            draft.memory.altering = [replace(one, results=results), *waiting[place + 1 :]]
            return
        answer = ReassignmentResults(correlation_id=one.frame.correlation_id, results=results)
        draft.replies.append(Say(one.link, answer))


def _altered(draft: Draft, altering: Altering, places: range) -> list[ReassignmentResult]:
    """What became of these places of a request."""
    frame, most = altering.frame, draft.settings.max_partitions_per_request
    room = draft.settings.max_waiting_reassignments - draft.not_begun() if places else 0
    results = []
    for place in places:
        wanted = frame.partitions[place]
        error, text = ErrorCode.NONE, ""
        try:
            if (wanted.topic, wanted.partition) in altering.named_twice:
                raise Refused(ErrorCode.INVALID_REQUEST, "the request names this partition twice")
            if place >= most:
                text = f"one request moves at most {most} partitions; ask for this one in another"
                raise Refused(ErrorCode.POLICY_VIOLATION, text)
            room -= _alter_one(draft, frame, wanted, uuid5(altering.fresh, str(place)), room)
        except Refused as refused:
            error, text = refused.error, refused.text
        results.append(
            ReassignmentResult(topic=wanted.topic, partition=wanted.partition, error=error, text=text)
        )
    return results


def _alter_one(
    draft: Draft, frame: AlterReassignments, wanted: WantedReplicas, new_id: UUID, room: int
) -> bool:
    """Returns whether one more waits than before. Raises Refused."""
    row = _row(draft, wanted)
    _check_looked_at(draft, row, wanted)
    if wanted.replicas is None:
        cancel(draft, row, f"cancelled by {frame.principal}" if frame.principal else "cancelled")
        return False
    check_target(draft, row, wanted.replicas, frame.may_change_factor)
    is_new = draft.reassignment(row.key) is None
    if is_new and room <= 0:
        waiting = draft.settings.max_waiting_reassignments
        text = f"{waiting} reassignments wait already; ask when some are done, or store a plan"
        raise Refused(ErrorCode.POLICY_VIOLATION, text)
    told = Told(principal=frame.principal, throttle=max(0, frame.throttle))
    ask(draft, row, wanted.topic, wanted.replicas, new_id, **told)
    return is_new


def answer_list(draft: Draft, link: LinkId, frame: ListReassignments) -> None:
    """Those that are asked for or under way; what is unknown is left out (conformance 198)."""
    wanted = None if frame.partitions is None else set(frame.partitions)
    ongoing = []
    for one in draft.active_reassignments():
        row = draft.partition(one.key)
        if row is None or (wanted is not None and (one.topic, one.partition) not in wanted):
            continue
        if one.phase is Phase.INIT:
            row = _beginning(draft, row, one.target, one.throttle)
        ongoing.append(OngoingReassignment(one.topic, one.partition, row.assigned, row.adding, row.removing))
    answer = OngoingReassignments(correlation_id=frame.correlation_id, ongoing=tuple(ongoing))
    draft.replies.append(Say(link, answer))


def not_written(
    frame: AlterReassignments, why: str, results: tuple[ReassignmentResult, ...] = ()
) -> ReassignmentResults:
    """The answer to a request of which a turn could not be written; `results` are of those before it."""
    text = f"{why}; nothing was changed"
    rest = (
        ReassignmentResult(
            topic=one.topic, partition=one.partition, error=ErrorCode.UNKNOWN_SERVER_ERROR, text=text
        )
        for one in frame.partitions[len(results) :]
    )
    return ReassignmentResults(correlation_id=frame.correlation_id, results=(*results, *rest))


# ---------------------------------------------------------------------------------- asking


def _row(draft: Draft, wanted: WantedReplicas) -> PartitionRow:
    """The partition as it is. Raises Refused."""
    topic = draft.topic_named_like(wanted.topic)
    row = draft.partition((topic.topic_id, wanted.partition)) if topic else None
    if topic is None or topic.name != wanted.topic or row is None:
        text = f"there is no partition {wanted.partition} of a topic {wanted.topic}"
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return row


def _check_looked_at(draft: Draft, row: PartitionRow, wanted: WantedReplicas) -> None:
    """Raise Refused unless the partition, and what moves it, are those that were looked at."""
    check_version(f"partition {wanted.topic}-{row.partition}", row.version, wanted.expected_version)
    active = draft.reassignment(row.key)
    if wanted.expected_move is not None and (active is None or active.id != wanted.expected_move):
        what = f"the reassignment {active.id}" if active else "nothing"
        text = f"{what} moves this partition by now, and {wanted.expected_move} was looked at"
        raise Refused(ErrorCode.INVALID_UPDATE_VERSION, text)


def check_target(
    draft: Draft, row: PartitionRow, target: tuple[int, ...], may_change_factor: bool = True
) -> None:
    """Raise Refused unless a partition can be there; a broker that is away may be named (conformance 195)."""
    if not target or len(set(target)) != len(target):
        text = "a partition needs at least one broker, and each at most once"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if unknown := [broker_id for broker_id in target if draft.broker(broker_id) is None]:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why_unknown(unknown[0]))
    cordoned = [b for b in target if b not in row.assigned and draft.is_cordoned(b)]
    if cordoned:
        text = f"broker {cordoned[0]} is cordoned: it gets no new replicas"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if not may_change_factor and len(target) != row.settled_count:
        text = (
            f"the partition has {row.settled_count} replicas, and the request does not allow another number"
        )
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, text)


class Told(TypedDict, total=False):
    """What is told of a reassignment beside its partition and target."""

    principal: str
    throttle: int
    plan_id: UUID
    plan_step: int


def ask(
    draft: Draft, row: PartitionRow, topic: str, target: tuple[int, ...], new_id: UUID, **told: Unpack[Told]
) -> None:
    """INIT, or in the place of what is active: that one is cancelled and its room taken over.

    Raises Refused if too few in-sync replicas were left.
    """
    active = draft.reassignment(row.key)
    in_progress = active is not None and active.phase is Phase.IN_PROGRESS
    new = Reassignment(
        id=new_id,
        topic_id=row.topic_id,
        topic=topic,
        partition=row.partition,
        origin=active.origin if active is not None and in_progress else row.assigned,
        target=target,
        phase=Phase.IN_PROGRESS if in_progress else Phase.INIT,
        **told,
    )
    if in_progress:
        changed = _beginning(draft, row, target, new.throttle)
        _require_isr(draft, row, changed)
        draft.put_partition(changed)
    if active is not None:
        draft.put_reassignment(
            msgspec.structs.replace(active, phase=Phase.CANCELLED, reason="replaced by another")
        )
    draft.put_reassignment(new)


def throttle(draft: Draft, one: Reassignment, rate: int) -> None:
    """Another rate for one that is active, in bytes a second; 0: any."""
    row = draft.partition(one.key)
    if row is not None and row.adding:
        draft.put_partition(msgspec.structs.replace(row, throttle=rate, version=draft.version))
    draft.put_reassignment(msgspec.structs.replace(one, throttle=rate))


def _beginning(draft: Draft, row: PartitionRow, target: tuple[int, ...], throttle: int) -> PartitionRow:
    """The row while it moves to `target`: new replicas first, those that go behind them.

    What an earlier reassignment was adding and this one does not want is dropped at once, with an epoch.
    """
    return _with_replicas(draft, row, *while_moving(row.assigned, row.adding, target), throttle)


def while_moving(
    assigned: tuple[int, ...], adding: tuple[int, ...], target: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Replicas of a partition while it moves to `target`, and which of them come and go."""
    settled = tuple(b for b in assigned if b not in adding)
    removing = tuple(b for b in settled if b not in target)
    return target + removing, tuple(b for b in target if b not in settled), removing


def cancel(draft: Draft, row: PartitionRow, reason: str, outcome: Phase = Phase.CANCELLED) -> None:
    """The partition stays where it was, or is again; raises Refused if too few in-sync replicas were left."""
    active = draft.reassignment(row.key)
    if active is None:
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "nothing moves this partition")
    if active.phase is Phase.IN_PROGRESS:
        changed = _with_replicas(draft, row, active.origin, (), ())
        _require_isr(draft, row, changed)
        draft.put_partition(changed)
    draft.put_reassignment(msgspec.structs.replace(active, phase=outcome, reason=reason))


def check_cancel(draft: Draft, one: Reassignment) -> None:
    """Raise Refused if to end it now would leave too few in-sync replicas."""
    row = draft.partition(one.key)
    if row is not None and one.phase is Phase.IN_PROGRESS:
        _require_isr(draft, row, _with_replicas(draft, row, one.origin, (), ()))


def fail(draft: Draft, one: Reassignment, reason: str) -> None:
    """It cannot reach its target any more; the partition stays where it was. Raises Refused."""
    row = draft.partition(one.key)
    assert row is not None
    cancel(draft, row, reason, Phase.FAILED)


def _require_isr(draft: Draft, row: PartitionRow, changed: PartitionRow) -> None:
    """Raise Refused unless what stays holds what is committed: acknowledged records lie on the ISR alone."""
    if row.is_unproven:
        text = "nobody knows who of its replicas holds what is committed, before they have shown their logs"
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if never_led(row):
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

    What is too much for this turn is left to the next. What has not begun is looked at when it was asked for
    and when what it waits for has room, never all of it: a hundred thousand may wait.
    """
    memory, waiting = draft.memory, draft.memory.waiting
    memory.reassigning = False
    for one in (*draft.reassignments.values(), *draft.failed_moves):
        waiting.forget(one.key)
    for one in draft.reassignments.values():
        if one.phase is Phase.INIT:
            waiting.wait(one.key, NOTHING_YET)
    if len(waiting) != draft.not_begun():
        # A new owner, or rows that were read again.
        waiting.begin_anew(one.key for one in draft.active_reassignments() if one.phase is Phase.INIT)
    if waiting.waits_for_logs():
        changed = (row for rows in draft.partitions.by_topic.values() for row in rows.values())
        waiting.shown(row.key for row in changed if not row.is_unproven)
    slots = _Slots(draft.settings)
    for one in draft.moving():
        if not _switch(draft, one):
            slots.take(_taken_up(draft, one))
    looks_left = LOOKS_PER_TURN
    for place in waiting.places():
        for key in waiting.at(place, looks_left):
            if place != NOTHING_YET and not slots.are_free_at(place):
                break
            looks_left -= 1
            if not _begin_or_wait(draft, key, slots):
                memory.reassigning = True
                return
        if looks_left == 0:
            memory.reassigning = True
            return


def put_off(draft: Draft) -> None:
    """Nothing is gone on with for now; then all that waits is looked at anew."""
    memory = draft.memory
    memory.reassigning = memory.planning = False
    memory.waiting = WaitingMoves()


class _Slots:
    """How many are in progress, in all and at each broker."""

    def __init__(self, settings: ControllerSettings) -> None:
        self._most, self._most_per_broker = settings.max_reassignments, settings.max_reassignments_per_broker
        self._busy: Counter[int] = Counter()
        self._in_progress = 0

    def are_free_at(self, place: int) -> bool:
        """A broker, or all of them."""
        if self._in_progress >= self._most:
            return False
        return place == ALL_BROKERS or self._busy[place] < self._most_per_broker

    def too_busy(self, takes: set[int]) -> int | None:
        """Which place is too busy for one that takes up these brokers; None: it may begin."""
        if not takes:
            return None
        return next((place for place in (ALL_BROKERS, *takes) if not self.are_free_at(place)), None)

    def take(self, takes: set[int]) -> None:
        self._in_progress += 1
        self._busy.update(takes)


def _begin_or_wait(draft: Draft, key: PartitionKey, slots: _Slots) -> bool:
    """Begin one, or let it wait for what is too busy. False: the turn is full."""
    one, row = draft.reassignment(key), draft.partition(key)
    assert one is not None and row is not None
    if row.is_unproven:
        draft.memory.waiting.wait(key, LOGS_SHOWN)
        return True
    began = _beginning(draft, row, one.target, one.throttle)
    takes = {*began.adding, row.leader} if began.adding else set()
    place = slots.too_busy(takes)
    if place is not None:
        draft.memory.waiting.wait(key, place)
        return True
    if not draft.take_room():
        return False
    draft.memory.waiting.forget(key)
    draft.put_partition(began)
    started = msgspec.structs.replace(one, phase=Phase.IN_PROGRESS, origin=row.assigned)
    draft.put_reassignment(started)
    if not _switch(draft, started):
        slots.take(takes)
    return True


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
    in_sync = set(row.isr)
    if row.is_unproven or not in_sync.issuperset(row.adding):
        # Nearly all of them, in nearly every turn: the rest is asked only where it may matter.
        return False
    live = draft.usable(draft.live(), row)
    kept = in_sync.intersection(one.target)
    fewest = max(1, floor(draft.policy(row.topic_id).min_insync_replicas, len(one.target)))
    if len(kept) < fewest or live.isdisjoint(kept):
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
    throttle: int = 0,
) -> PartitionRow:
    """The row with these replicas; the epoch rises when one is dropped or the leader goes.

    A dropped replica may still fetch by what it knew: another epoch tells it apart (`switch_no_epoch`). Of a
    partition that never led there is nothing to fetch, and no epoch was given.
    """
    isr = tuple(b for b in assigned if b in row.isr)
    leader = row.leader
    if leader not in assigned and not row.is_unproven:
        usable = draft.usable(draft.live(), row)
        leader = next((b for b in isr if b in usable), NO_LEADER)
    is_other = leader != row.leader or not set(row.assigned) <= set(assigned)
    is_other = is_other and not never_led(row)
    epoch = row.leader_epoch + is_other
    if is_other and not can_be_led_anew(row):
        leader, epoch = NO_LEADER, LAST_EPOCH
    return PartitionRow(
        row.topic_id,
        row.partition,
        assigned,
        leader,
        epoch,
        isr,
        draft.version,
        adding,
        removing,
        throttle if adding else 0,
        row.base_epoch,
        row.unproven,
    )
