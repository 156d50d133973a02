"""This room deletes groups, or offsets, as Kafka's clients ask (conformance 114, 126 to 129, 138, 139)."""

from collections.abc import Callable, Iterable

from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.classic.offsets import refusal
from coordinator.core.draft import Draft
from coordinator.core.events import (
    DeletionAnswer,
    GroupDeletion,
    OffsetDeletion,
    OffsetsTakenBack,
    ToolRequest,
)
from coordinator.core.rebalance import somebody_reads
from groups.core import records
from groups.core.consumer_protocol import CONSUMER, subscribed_topics
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition, by_topic

Reads = Callable[[str], bool]
"""Whether some member subscribes to a topic."""


def decide(draft: Draft | ClassicDraft, request: ToolRequest) -> None:
    """Answer one; at the end of a turn, when it is known who is a member."""
    if isinstance(request, GroupDeletion):
        answer = DeletionAnswer(request.waiter, _delete(draft))
    else:
        answer = _delete_offsets(draft, request)
    if isinstance(draft, Draft):
        draft.answer(request.connection, answer)
    else:
        draft.say(request.connection, answer)


def take_back(draft: Draft | ClassicDraft, event: OffsetsTakenBack) -> None:
    """Nothing is committed there any more, if who asked may still commit."""
    if event.generation < 0 and _is_empty(draft):
        _drop(draft, event.partitions)
    elif isinstance(draft, ClassicDraft):
        who = event.member_id, event.group_instance_id, event.generation
        if refusal(draft.rows, draft.instances, *who) is ErrorCode.NONE:
            _drop(draft, event.partitions)


def _delete(draft: Draft | ClassicDraft) -> ErrorCode:
    if not _exists(draft):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not _is_empty(draft):
        return ErrorCode.NON_EMPTY_GROUP
    draft.end()
    return ErrorCode.NONE


def _delete_offsets(draft: Draft | ClassicDraft, event: OffsetDeletion) -> DeletionAnswer:
    if not _exists(draft):
        return DeletionAnswer(event.waiter, ErrorCode.GROUP_ID_NOT_FOUND)
    read = _reads(draft)
    if read is None:
        return DeletionAnswer(event.waiter, ErrorCode.NON_EMPTY_GROUP)
    topics = sorted({one.topic for one in event.partitions})
    subscribed = {topic for topic in topics if read(topic)}
    _drop(draft, (one for one in event.partitions if one.topic not in subscribed))
    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    return DeletionAnswer(
        event.waiter, refused={one: error for one in event.partitions if one.topic in subscribed}
    )


def _drop(draft: Draft | ClassicDraft, partitions: Iterable[Partition]) -> None:
    gone = [one for one in partitions if one in draft.rows.offsets]
    if gone:
        draft.record(records.OffsetsDeleted(by_topic(gone)))
    if isinstance(draft, Draft):
        draft.forget_dirty(gone)
        if gone:
            draft.let_nobody_go_on()


def _exists(draft: Draft | ClassicDraft) -> bool:
    """A group that this very turn begins exists; one that ends with it does not."""
    ends = isinstance(draft, Draft) and draft.rows.ephemeral and not draft.rows.members
    return not (draft.over or ends) and bool(draft.rows.before.version or draft.records)


def _is_empty(draft: Draft | ClassicDraft) -> bool:
    if isinstance(draft, Draft):
        return not draft.rows.members
    return draft.phase is Phase.EMPTY


def _reads(draft: Draft | ClassicDraft) -> Reads | None:
    """Who reads what, or owns it still; None if nobody can tell, as members do not speak of topics.

    Of Kafka's consumers one whose subscription cannot be read may read everything (conformance 49).
    """
    if isinstance(draft, Draft):
        subscribed_to = somebody_reads(draft.rows.members.values(), draft.surroundings.matches)
        owners = draft.owners()
        return lambda topic: topic in owners or subscribed_to(topic)
    classic = draft.rows.classic
    if not classic.members:
        return lambda topic: False
    if classic.protocol_type != CONSUMER:
        return None
    name = classic.protocol_name
    said = [subscribed_topics(one.metadata(name) or one.protocols[0][1]) for one in classic.members.values()]
    if any(one is None for one in said):
        return lambda topic: True
    subscribed = frozenset[str]().union(*(one for one in said if one is not None))
    return subscribed.__contains__
