"""This room lets offsets go, by age or with their topic, and then their group (conformance 130 to 136).

Ages are read where times are stored; a core knows none.
"""

from collections.abc import Callable

from coordinator.core.classic.draft import ClassicDraft
from coordinator.core.draft import Draft
from coordinator.core.events import (
    AgedOffset,
    OffsetsOrphaned,
    PartitionsRemoved,
    Swept,
    TopicsDeleted,
)
from coordinator.core.rebalance import somebody_reads
from groups.core import records
from groups.core.consumer_protocol import CONSUMER, subscribed_topics
from groups.core.phases import Phase
from muster.messages.partitions import Partition, by_topic, each_position


def happened(
    draft: Draft | ClassicDraft,
    event: TopicsDeleted | PartitionsRemoved | OffsetsOrphaned | Swept,
    *,
    first: bool,
) -> None:
    """Offsets may go. `first`: the group was in no other world earlier in this turn."""
    match event:
        case TopicsDeleted():
            _let_go(draft, lambda one: one.topic_id in event.topic_ids)
        case PartitionsRemoved():
            _forget_dirty(draft, lambda one: (one.topic_id, one.number) in event.partitions)
        case OffsetsOrphaned():
            entered = _entered(draft)
            found = [one for one, offset in event.offsets if _is_as_read(draft, one, offset)]
            _delete(draft, [one for one in found if one not in entered])
        case Swept():
            if first and event.version == draft.rows.before.version and not draft.records:
                _sweep(draft, event)


def _let_go(draft: Draft | ClassicDraft, is_gone: Callable[[Partition], bool]) -> None:
    """Of offsets, durable or not, those of partitions that are gone."""
    _delete(draft, [one for one in draft.rows.offsets if is_gone(one)])
    _forget_dirty(draft, is_gone)


def _forget_dirty(draft: Draft | ClassicDraft, is_gone: Callable[[Partition], bool]) -> None:
    if isinstance(draft, Draft):
        draft.forget_dirty([one for one in draft.dirty if is_gone(one)])


def _is_as_read(draft: Draft | ClassicDraft, partition: Partition, offset: int) -> bool:
    """Also where it is not known: a load leaves such offsets out, and then nobody but their rows has them."""
    return draft.rows.offsets.get(partition, offset) == offset


def _entered(draft: Draft | ClassicDraft) -> frozenset[Partition]:
    """Whose offsets are set in this very turn."""
    return frozenset(partition for record in draft.records for partition in offsets_in(record))


def _sweep(draft: Draft | ClassicDraft, swept: Swept) -> None:
    committed = draft.rows.offsets
    read = _Read(draft, swept)
    _delete(
        draft,
        [
            one.partition
            for one in swept.offsets
            if committed.get(one.partition) == one.offset and read.is_over(one)
        ],
    )
    if read.empty and not draft.rows.offsets and swept.empty_ms >= swept.retention_ms:
        draft.end()


def offsets_in(record: records.GroupRecord) -> list[Partition]:
    """Of which partitions this says what is committed."""
    if isinstance(record, records.OffsetsSet | records.OffsetsFlushed):
        return [partition for partition, _ in each_position(record.offset_info)]
    return []


def _delete(draft: Draft | ClassicDraft, partitions: list[Partition]) -> None:
    if partitions:
        draft.record(records.OffsetsDeleted(by_topic(partitions)))


class _Read:
    """Which offsets of a group nobody needs any more."""

    def __init__(self, draft: Draft | ClassicDraft, swept: Swept) -> None:
        self._swept = swept
        self._topics: dict[str, bool] = {}
        rows = draft.rows
        if isinstance(draft, Draft):
            self.empty = not rows.members
            self._simple = False
            self._known = True
            self._somebody_reads = somebody_reads(rows.members.values(), draft.surroundings.matches)
        else:
            self.empty = rows.phase is Phase.EMPTY and not draft.pending
            self._simple = not rows.classic.protocol_type
            subscriptions = self._subscribed(draft)
            self._known = subscriptions is not None
            self._somebody_reads = (subscriptions or frozenset()).__contains__

    def is_over(self, one: AgedOffset) -> bool:
        """An end of its own replaces the retention, but not the rule that a group must do without it."""
        if not self.empty and (not self._known or self._reads(one.partition.topic)):
            return False
        if one.stamp_passed is not None:
            return one.stamp_passed
        age_ms = self._swept.empty_ms if self.empty and not self._simple else one.age_ms
        return age_ms >= self._swept.retention_ms

    def _reads(self, topic: str) -> bool:
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = self._somebody_reads(topic)
        return known

    def _subscribed(self, draft: ClassicDraft) -> frozenset[str] | None:
        """The topics of a Stable group of consumers; None: nobody knows, any topic may be one of them."""
        classic = draft.rows.classic
        if draft.phase is not Phase.STABLE or classic.protocol_type != CONSUMER:
            return None
        topics: set[str] = set()
        for member in classic.members.values():
            mine = subscribed_topics(member.metadata(classic.protocol_name))
            if mine is None:
                return None
            topics |= mine
        return frozenset(topics)
