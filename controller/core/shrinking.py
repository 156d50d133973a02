"""This room removes the highest partitions of a topic by request: rows at once, logs by each broker (002 H).

Numbers stay dense, as clients need them. What is added under one of them later is another partition, which
leader epochs tell apart: they go on above all that the removed ones had (replication.md section 2).
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from controller.core.draft import Draft
from controller.core.election import LAST_EPOCH
from controller.core.events import LinkId, Say
from controller.core.topics import Refused, check_version
from muster.kernel import config_levels
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scopes import Scope
from muster.kernel.topic_configs import DELETE_TOPIC_ENABLE
from muster.kernel.topology import Unread
from muster.messages.link.from_broker import RemovePartitions
from muster.messages.link.protocol import REMOVES
from muster.messages.link.rows import TopicRow
from muster.messages.link.to_broker import TopicResult, TopicResults

NAMED: Final = 3
"""Of those that have not read everything, in a refusal."""


def remove(draft: Draft, link: LinkId, frame: RemovePartitions, unread: Sequence[Unread] | None) -> None:
    """Remove them, whichever of their brokers are dead; the answer leaves with this turn.

    `unread`: what groups have not read of them, as it was just found; None: nobody has looked.
    """
    try:
        topic = _judged(draft, frame)
        if not frame.force:
            told_groups = () if frame.told_groups is msgspec.UNSET else frame.told_groups
            _require_read(unread, Scope.of(told_groups))
    except Refused as refused:
        result = TopicResult(name=frame.topic, error=refused.error, text=refused.text)
    else:
        result = TopicResult(name=topic.name, topic_id=topic.topic_id)
        if not frame.validate_only:
            _remove(draft, topic, frame.partition_count)
    draft.replies.append(Say(link, TopicResults(correlation_id=frame.correlation_id, topics=(result,))))


def _judged(draft: Draft, frame: RemovePartitions) -> TopicRow:
    """The topic as it is; raises Refused."""
    topic = draft.topic_named_like(frame.topic)
    if topic is None or topic.name != frame.topic:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {frame.topic}")
    check_version(f"topic {topic.name}", topic.version, frame.expected_version)
    if not config_levels.flag(DELETE_TOPIC_ENABLE, {}, draft.levels()):
        raise Refused(
            ErrorCode.TOPIC_DELETION_DISABLED, f"config {DELETE_TOPIC_ENABLE} is false for this cluster"
        )
    removed = topic.partition_count - frame.partition_count
    if frame.partition_count < 1 or removed < 1:
        text = f"topic {topic.name} has {topic.partition_count} partitions: fewer can stay, one at least"
        raise Refused(ErrorCode.INVALID_REQUEST, text)
    most = draft.settings.max_partitions_per_request
    if removed > most:
        raise Refused(ErrorCode.POLICY_VIOLATION, f"one request removes at most {most} partitions")
    if draft.grew(topic.topic_id):
        text = "partitions are added to it in this very moment: look at it again"
        raise Refused(ErrorCode.OPERATION_NOT_ATTEMPTED, text)
    _require_understood(draft)
    return topic


def _require_understood(draft: Draft) -> None:
    """Raise Refused unless every live broker heeds it: one that does not would go on with what is removed."""
    for broker_id, session in draft.memory.sessions.items():
        if session.protocol < REMOVES:
            text = f"broker {broker_id} is older than this, or has not linked to this controller yet"
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, text)


def _require_read(unread: Sequence[Unread] | None, told: Scope) -> None:
    """Raise Refused unless all is read; of other groups than those `told` only that they have not."""
    if unread is None:
        text = "nobody has looked whether groups have read everything: ask over REST, or force it"
        raise Refused(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, text)
    if unread:
        known = [one for one in unread if told.covers(one.group)]
        named = [_words(one) for one in known[:NAMED]]
        if len(known) > NAMED:
            named.append(f"and {len(known) - NAMED} more")
        if len(known) < len(unread):
            named.append("groups of which this token is not told have not read all")
        raise Refused(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, f"not all is read: {'; '.join(named)}")


def _words(one: Unread) -> str:
    records = "records" if one.records < 0 else "1 record" if one.records == 1 else f"{one.records} records"
    return f"group {one.group} has {records} of partition {one.partition} before it"


def _remove(draft: Draft, topic: TopicRow, first: int) -> None:
    gone = [row for row in draft.partitions_of_topic(topic.topic_id) if row.partition >= first]
    # One more than any of them had: no two partitions of one number begin at the same epoch.
    removed_epoch = min(1 + max(topic.removed_epoch, *(row.leader_epoch for row in gone)), LAST_EPOCH)
    draft.fail_moves(topic.topic_id, first, "the partition was removed")
    draft.remove_partitions(topic.topic_id, first)
    draft.change_topic(msgspec.structs.replace(topic, partition_count=first, removed_epoch=removed_epoch))


def not_written(frame: RemovePartitions, why: str) -> TopicResults:
    """The answer to a request whose turn could not be written."""
    text = f"{why}; nothing was removed"
    result = TopicResult(name=frame.topic, error=ErrorCode.UNKNOWN_SERVER_ERROR, text=text)
    return TopicResults(correlation_id=frame.correlation_id, topics=(result,))
