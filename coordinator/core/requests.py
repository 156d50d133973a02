"""This room decides operators' requests: what the group allows, what becomes true, what is answered."""

from collections.abc import Callable, Iterable, Sequence

from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.draft import Draft
from coordinator.core.rebalance import reads
from groups.core import records
from groups.core.requests import (
    Answer,
    DeleteGroup,
    DeleteOffsets,
    GroupRequest,
    OffsetChange,
    Rebalance,
    Scope,
    SetStrategy,
    Verdict,
    kind_of,
    refused,
)
from groups.core.state import Key
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition, by_topic

NAMES_SHOWN = 3
NOTHING = -1
"""Stands for no committed offset."""

Plan = tuple[Answer, Callable[[], None]]
"""What is answered if it is carried out, and the carrying out."""


def decide(draft: Draft | ClassicDraft, request: GroupRequest, *, first: bool = True) -> None:
    """Answer one request; a refused one, and a dry run, change nothing but the request's row.

    `first`: the group was in no other world earlier in this turn.
    """
    answer = _decided(draft, request, first=first)
    draft.record(
        records.RequestDecided(
            request.id, kind_of(request.asked.wish), request.principal, request.reason, answer
        )
    )


def _decided(draft: Draft | ClassicDraft, request: GroupRequest, *, first: bool) -> Answer:
    if draft.rows.before.version == 0 or _is_over(draft):
        return refused(ErrorCode.GROUP_ID_NOT_FOUND, "There is no such group any more.")
    if not _is_as_expected(draft, request, first=first):
        now = draft.rows.before.key
        return Answer(
            Verdict.CHANGED_MEANWHILE,
            text=f"The group is at generation {now.generation}, version {now.version} now.",
        )
    if request.error:
        return refused(ErrorCode.UNKNOWN_SERVER_ERROR, request.error)
    planned = _plan(draft, request)
    if isinstance(planned, Answer):
        return planned
    answer, carry_out = planned
    if request.asked.dry_run:
        return Answer(Verdict.WOULD_BE_DONE, answer.error, answer.text, answer.changes)
    carry_out()
    return answer


def _is_as_expected(draft: Draft | ClassicDraft, request: GroupRequest, *, first: bool) -> bool:
    """Also false if an event of this very turn has changed the group: nobody has seen that version."""
    expected = request.asked.expected
    if expected is None:
        return True
    return first and not draft.rows.changed and Key(*expected) == draft.rows.before.key


def _is_over(draft: Draft | ClassicDraft) -> bool:
    return isinstance(draft, Draft) and draft.ended


def _plan(draft: Draft | ClassicDraft, request: GroupRequest) -> Plan | Answer:
    if isinstance(draft, ClassicDraft):
        return refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The group's members speak Kafka's protocol.")
    match request.asked.wish:
        case Rebalance():
            return _rebalance(draft, request)
        case SetStrategy() as wish:
            return _set_strategy(draft, request, wish)
        case DeleteGroup():
            return _delete_group(draft)
        case DeleteOffsets() as wish:
            return _delete_offsets(draft, wish)


def _rebalance(draft: Draft, request: GroupRequest) -> Plan | Answer:
    if not draft.rows.members:
        return refused(ErrorCode.UNKNOWN_MEMBER_ID, "The group has no members to share its partitions.")
    text = "A rebalance was asked for. If the partitions are shared as they should be, nothing moves."
    return Answer(Verdict.DONE, text=text), lambda: draft.want(_cause(request))


def _set_strategy(draft: Draft, request: GroupRequest, wish: SetStrategy) -> Plan | Answer:
    rows = draft.rows
    assignor = wish.assignor or rows.assignor
    rebalance_mode = wish.rebalance_mode or rows.rebalance_mode
    if (assignor, rebalance_mode) == (rows.assignor, rows.rebalance_mode):
        return Answer(Verdict.DONE, text="It is so already."), lambda: None

    def carry_out() -> None:
        again = assignor != rows.assignor and bool(rows.members)
        draft.record(records.StrategySet(assignor, rebalance_mode))
        if again:
            draft.want(_cause(request))

    return Answer(Verdict.DONE, text=f"Assignor {assignor}, rebalance mode {rebalance_mode}."), carry_out


def _delete_group(draft: Draft) -> Plan | Answer:
    if draft.rows.members:
        return _has_members(draft, "deleted")
    offsets = len(draft.rows.offsets)
    return Answer(Verdict.DONE, text=f"Deleted, with {offsets} committed offsets."), draft.end


def _delete_offsets(draft: Draft, wish: DeleteOffsets) -> Plan | Answer:
    chosen = _chosen(draft.rows.offsets, wish.scope)
    if not chosen:
        text = "The group has committed nothing for these partitions."
        return refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    for topic in sorted({one.topic for one in chosen}):
        readers = [
            name for name, one in draft.rows.members.items() if reads(one, topic, draft.surroundings.matches)
        ]
        if readers:
            text = f"{topic} is read by {names(readers)}. Stop them first."
            return refused(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, text)
    changes = tuple(_change(one, draft.rows.offsets[one], NOTHING) for one in chosen)

    def carry_out() -> None:
        draft.record(records.OffsetsDeleted(by_topic(chosen)))
        draft.forget_dirty(chosen)

    return Answer(Verdict.DONE, text=f"{len(chosen)} offsets deleted.", changes=changes), carry_out


def _chosen(committed: Iterable[Partition], scope: Sequence[Scope]) -> list[Partition]:
    """The partitions with a committed offset that `scope` names, by topic and number."""
    wanted = {one.topic: frozenset(one.partitions) for one in scope}
    return sorted(
        one
        for one in committed
        if one.topic in wanted and (not wanted[one.topic] or one.number in wanted[one.topic])
    )


def _change(partition: Partition, before: int, after: int, note: str = "") -> OffsetChange:
    return OffsetChange(partition.topic, partition.topic_id, partition.number, before, after, note)


def _has_members(draft: Draft, what: str) -> Answer:
    members = draft.rows.members
    text = f"A group with members is not {what}: {names(members)}. Stop them first."
    return refused(ErrorCode.NON_EMPTY_GROUP, text)


def names(of: Iterable[str]) -> str:
    """The first of these names, and how many more there are."""
    found = sorted(of)
    shown = ", ".join(found[:NAMES_SHOWN])
    return shown if len(found) <= NAMES_SHOWN else f"{shown} and {len(found) - NAMES_SHOWN} more"


def _cause(request: GroupRequest) -> str:
    return f"{request.principal} asked: {request.reason}"
