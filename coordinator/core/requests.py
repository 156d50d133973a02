"""This room decides operators' requests: what the group allows, what becomes true, what is answered."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import structs

from coordinator.core import quarantine, resetting
from coordinator.core.classic import leaving
from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.draft import Draft
from coordinator.core.native import sessions
from coordinator.core.rebalance import REDUNDANT, reads, somebody_reads
from coordinator.core.resetting import NOTHING
from groups.core import records
from groups.core.consumer_protocol import CONSUMER, subscribed_topics
from groups.core.requests import (
    QUARANTINES_MAX,
    Answer,
    DeleteGroup,
    DeleteOffsets,
    GroupRequest,
    LiftQuarantine,
    OffsetChange,
    Rebalance,
    RemoveMember,
    ResetOffsets,
    Scope,
    SetStrategy,
    UndoReset,
    Verdict,
    kind_of,
    refused,
)
from groups.core.state import Key
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import elapsed_ms
from muster.messages.partitions import Partition, Position, by_topic, positions_by_topic

NAMES_SHOWN = 3
AnyDraft = Draft | ClassicDraft

Plan = tuple[Answer, Callable[[], None]]
"""What is answered if it is carried out, and the carrying out."""


def decide(draft: AnyDraft, request: GroupRequest, *, first: bool = True) -> None:
    """Answer one request; a refused one, and a dry run, change nothing but the request's row.

    `first`: the group was in no other world earlier in this turn.
    """
    answer = _decided(draft, request, first=first)
    draft.record(
        records.RequestDecided(
            request.id, kind_of(request.asked.wish), request.principal, request.reason, answer
        )
    )


def _decided(draft: AnyDraft, request: GroupRequest, *, first: bool) -> Answer:
    if draft.rows.before.version == 0 or draft.over:
        return refused(ErrorCode.GROUP_ID_NOT_FOUND, "There is no such group any more.")
    if not _is_as_expected(draft, request, first=first):
        now = draft.rows.before.key
        return Answer(
            Verdict.CHANGED_MEANWHILE,
            text=f"The group is at generation {now.generation}, version {now.version} now.",
        )
    if request.findings.error:
        return refused(ErrorCode(request.findings.error), request.findings.text)
    planned = _plan(draft, request)
    if isinstance(planned, Answer):
        return planned
    answer, carry_out = planned
    if request.asked.dry_run:
        return Answer(Verdict.WOULD_BE_DONE, answer.error, answer.text, answer.changes)
    carry_out()
    return answer


def _is_as_expected(draft: AnyDraft, request: GroupRequest, *, first: bool) -> bool:
    """Also false if an event of this very turn has changed the group: nobody has seen that version."""
    expected = request.asked.expected
    if expected is None:
        return True
    return first and not draft.rows.changed and Key(*expected) == draft.rows.before.key


def _plan(draft: AnyDraft, request: GroupRequest) -> Plan | Answer:
    match request.asked.wish:
        case RemoveMember() as wish:
            return _remove_member(draft, request, wish)
        case LiftQuarantine() as wish:
            return _lift_quarantine(draft, wish)
        case Rebalance():
            return _rebalance(draft, request)
        case SetStrategy() as wish:
            return _set_strategy(draft, request, wish)
        case DeleteGroup():
            return _delete_group(draft)
        case DeleteOffsets() as wish:
            return _delete_offsets(draft, wish)
        case ResetOffsets() as wish:
            changes = resetting.changes_of(wish, request.findings.partitions, draft.rows.offsets)
            return _set_offsets(draft, changes)
        case UndoReset() as wish:
            return _undo(draft, wish)


def _members(draft: AnyDraft) -> Mapping[str, object]:
    return draft.rows.members if isinstance(draft, Draft) else draft.rows.classic.members


def _remove_member(draft: AnyDraft, request: GroupRequest, wish: RemoveMember) -> Plan | Answer:
    name = wish.member
    if not isinstance(draft, Draft) and name not in _members(draft):
        # A static member is shown by the name that it keeps.
        name = draft.instances.get(name, name)
    if name not in _members(draft) and not wish.quarantine_ms:
        return refused(ErrorCode.UNKNOWN_MEMBER_ID, f"The group has no member {name}.")
    why = f"removed by {request.principal}: {request.reason}"
    if isinstance(draft, Draft):
        return _cut_off(draft, wish, why)
    return _take_out(draft, structs.replace(wish, member=name), why)


def _too_many_kept_out(draft: AnyDraft, name: str) -> Answer | None:
    """A refusal, where one name more would be kept out than may be."""
    if len(draft.rows.quarantined) < QUARANTINES_MAX or name in draft.rows.quarantined:
        return None
    return refused(ErrorCode.POLICY_VIOLATION, f"The group keeps {QUARANTINES_MAX} names out already.")


def _cut_off(draft: Draft, wish: RemoveMember, why: str) -> Plan | Answer:
    """Not removed at once: until its session is over a native member may still fetch what it owns."""
    name, is_member = wish.member, wish.member in draft.rows.members
    if too_many := _too_many_kept_out(draft, name):
        return too_many

    def carry_out() -> None:
        if wish.quarantine_ms or name not in draft.rows.quarantined:
            # Whoever states no time takes away none that another stated.
            quarantine.impose(draft, name, wish.quarantine_ms, why)
        if is_member:
            sessions.cut_off(draft, name, why)

    told = []
    if is_member:
        left_s = elapsed_ms(draft.now, draft.sessions[name].ends_at) // 1000 + 1
        owned = len(draft.rows.owned_by(name))
        told.append(
            f"{name} is cut off. Its session is over in {left_s} s; then {owned} partitions are free."
        )
    return Answer(Verdict.DONE, text=" ".join([*told, *_kept_out(name, wish)])), carry_out


def _take_out(draft: ClassicDraft, wish: RemoveMember, why: str) -> Plan | Answer:
    """As Kafka does: at once. A quarantine is by the name that a member keeps when it comes again."""
    member = draft.rows.classic.members.get(wish.member)
    name = wish.member if member is None else member.group_instance_id or member.client_id
    if wish.quarantine_ms and member is not None and member.group_instance_id is None:
        members = draft.rows.classic.members.values()
        same = sum(one.client_id == name and one.group_instance_id is None for one in members)
        if same > 1:
            text = f"{same} members share the client.id {name}: give them a group.instance.id."
            return refused(ErrorCode.INVALID_REQUEST, text)
    if wish.quarantine_ms and (too_many := _too_many_kept_out(draft, name)):
        return too_many

    def carry_out() -> None:
        if wish.quarantine_ms:
            quarantine.impose(draft, name, wish.quarantine_ms, why)
        if member is not None:
            draft.remove(wish.member, why)
            leaving.go_on_without(draft, f"{wish.member}: {why}")

    told = [] if member is None else [f"{wish.member} is removed; the others share its partitions."]
    return Answer(Verdict.DONE, text=" ".join([*told, *_kept_out(name, wish)])), carry_out


def _kept_out(name: str, wish: RemoveMember) -> list[str]:
    if not wish.quarantine_ms:
        return []
    return [f"Whoever comes as {name} is refused for {wish.quarantine_ms // 1000} s."]


def _lift_quarantine(draft: AnyDraft, wish: LiftQuarantine) -> Plan | Answer:
    kept_out = draft.rows.quarantined.get(wish.member)
    if kept_out is None:
        return refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Nobody called {wish.member} is kept out.")
    if wish.member in draft.rows.members:
        text = f"{wish.member} may come again when its session is over."
        return Answer(Verdict.DONE, text=text), lambda: quarantine.impose(draft, wish.member, 0, kept_out.why)
    text = f"{wish.member} may come again."
    return Answer(Verdict.DONE, text=text), lambda: quarantine.lift(draft, wish.member)


def _rebalance(draft: AnyDraft, request: GroupRequest) -> Plan | Answer:
    if not _members(draft):
        return refused(ErrorCode.UNKNOWN_MEMBER_ID, "The group has no members to share its partitions.")
    if isinstance(draft, Draft):
        native, text = draft, "If the partitions are shared as they should be, nothing moves."
        return Answer(Verdict.DONE, text=f"A handler was asked. {text}"), lambda: native.want(_cause(request))
    classic = draft

    def carry_out() -> None:
        leaving.go_on_without(classic, _cause(request))

    return Answer(Verdict.DONE, text="All members have to join again."), carry_out


def _set_strategy(draft: AnyDraft, request: GroupRequest, wish: SetStrategy) -> Plan | Answer:
    if not isinstance(draft, Draft):
        text = "The members of this group assign by themselves: their leader does, by what all of them speak."
        return refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
    rows = draft.rows
    assignor = wish.assignor or rows.assignor
    rebalance_mode = wish.rebalance_mode or rows.rebalance_mode
    copies = wish.copies or rows.copies
    if (assignor, rebalance_mode, copies) == (rows.assignor, rows.rebalance_mode, rows.copies):
        return Answer(Verdict.DONE, text="It is so already."), lambda: None

    def carry_out() -> None:
        again = (assignor, copies) != (rows.assignor, rows.copies) and bool(rows.members)
        draft.record(records.StrategySet(assignor, rebalance_mode, wish.copies or 0))
        if again:
            draft.want(_cause(request))

    text = f"Assignor {assignor}, rebalance mode {rebalance_mode}."
    if assignor == REDUNDANT:
        text += f" Each partition has an owner and {copies - 1} more where so many are willing to stand by."
        if not any(member.stands_by for member in rows.members.values()):
            text += " No member is, so far."
    return Answer(Verdict.DONE, text=text), carry_out


def _delete_group(draft: AnyDraft) -> Plan | Answer:
    if _members(draft):
        return _has_members(draft, "deleted")
    offsets = len(draft.rows.offsets)
    return Answer(Verdict.DONE, text=f"Deleted, with {offsets} committed offsets."), draft.end


def _delete_offsets(draft: AnyDraft, wish: DeleteOffsets) -> Plan | Answer:
    chosen = _chosen(draft.rows.offsets, wish.scope)
    if not chosen:
        text = "The group has committed nothing for these partitions."
        return refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    topics = sorted({one.topic for one in chosen})
    if text := _why_read_native(draft, topics) if isinstance(draft, Draft) else _why_read(draft, topics):
        return refused(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, text)
    changes = tuple(_change(one, draft.rows.offsets[one], NOTHING) for one in chosen)

    def carry_out() -> None:
        draft.record(records.OffsetsDeleted(by_topic(chosen)))
        if isinstance(draft, Draft):
            draft.forget_dirty(chosen)
            draft.let_nobody_go_on()

    text = f"{len(chosen)} offset{'' if len(chosen) == 1 else 's'} deleted."
    return Answer(Verdict.DONE, text=text, changes=changes), carry_out


def _set_offsets(draft: AnyDraft, changes: tuple[OffsetChange, ...]) -> Plan | Answer:
    """Not while members are there: they would go on where they are, and commit over it."""
    if _members(draft):
        answer = _has_members(draft, "given other offsets")
        return Answer(answer.verdict, answer.error, answer.text, changes)
    moved = [one for one in changes if one.before != one.after]

    def carry_out() -> None:
        put = {_partition(one): Position(one.after, 0) for one in moved if one.after != NOTHING}
        gone = [_partition(one) for one in moved if one.after == NOTHING]
        if put:
            draft.record(records.OffsetsSet(positions_by_topic(put)))
        if gone:
            draft.record(records.OffsetsDeleted(by_topic(gone)))
        if moved and isinstance(draft, Draft):
            draft.let_nobody_go_on()

    text = f"{len(moved)} of {len(changes)} offsets set."
    return Answer(Verdict.DONE, text=text, changes=changes), carry_out


def _undo(draft: AnyDraft, wish: UndoReset) -> Plan | Answer:
    back, moved = resetting.undone(wish, draft.rows.offsets)
    if moved:
        text = f"Something else was committed since for {names(moved)}. Reset them to where they shall be."
        return Answer(Verdict.REFUSED, int(ErrorCode.ILLEGAL_GENERATION), text, back)
    return _set_offsets(draft, back)


def _partition(change: OffsetChange) -> Partition:
    return Partition(change.topic, change.topic_id, change.partition)


def _why_read_native(draft: Draft, topics: Iterable[str]) -> str:
    """Who owns one of the topics, or reads it; empty: nobody does."""
    owners, members, matches = draft.owners(), draft.rows.members, draft.surroundings.matches
    read = somebody_reads(members.values(), matches)
    for topic in topics:
        if topic in owners or read(topic):
            readers = owners.get(topic) or [
                name for name, member in members.items() if reads(member, topic, matches)
            ]
            if readers:
                return _is_read(topic, readers)
            return f"Whose patterns match {topic} is too much to look through at once: name fewer topics."
    return ""


def _why_read(draft: ClassicDraft, topics: Iterable[str]) -> str:
    """Who reads one of the topics, or may: what a member does not say in Kafka's way nobody knows."""
    classic = draft.rows.classic
    said = {name: [metadata for _, metadata in one.protocols] for name, one in classic.members.items()}
    if said and classic.protocol_type != CONSUMER:
        return _is_read(min(topics), said)
    wanted = {one: subscribed_topics(one) for one in {one for each in said.values() for one in each}}
    everything = None in wanted.values()
    read = frozenset[str]().union(*(one for one in wanted.values() if one is not None))
    for topic in topics:
        if everything or topic in read:
            may = {metadata for metadata, one in wanted.items() if one is None or topic in one}
            return _is_read(topic, (name for name, each in said.items() if not may.isdisjoint(each)))
    return ""


def _is_read(topic: str, readers: Iterable[str]) -> str:
    return f"{topic} is read by {names(readers)}. Stop them first."


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


def _has_members(draft: AnyDraft, what: str) -> Answer:
    text = f"A group with members is not {what}: {names(_members(draft))}. Stop them first."
    return refused(ErrorCode.NON_EMPTY_GROUP, text)


def names(of: Iterable[str]) -> str:
    """The first of these names, and how many more there are."""
    found = sorted(of)
    shown = ", ".join(found[:NAMES_SHOWN])
    return shown if len(found) <= NAMES_SHOWN else f"{shown} and {len(found) - NAMES_SHOWN} more"


def _cause(request: GroupRequest) -> str:
    return f"{request.principal} asked: {request.reason}"
