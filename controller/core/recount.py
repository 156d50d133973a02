"""This room elects where a database that was set back may name the wrong replicas in sync (ADR 22).

Every replica shows its log; the one that goes furthest leads, as only who holds all that was committed can
have led in the last leader epoch, or have a batch of it, and of those the longest holds all of it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from controller.core.draft import Draft
from controller.core.election import Choice, any_leader, elect
from controller.core.events import LinkId
from controller.core.records import LogsCompared, ShownEnd, ShownLogs
from controller.core.state import NOTHING_LOST, LostTail
from muster.kernel.instants import after
from muster.messages.link.log_ends import NOT_NOTED, LogEnd
from muster.messages.link.protocol import SHOWS_LOGS
from muster.messages.link.rows import DOUBTED, NO_LEADER, UNPROVEN, PartitionRow

WAITS: Final = "nobody leads before its replicas have shown their logs, as the database was set back"

_Alike: TypeAlias = tuple[UUID, int, tuple[int, ...]]
"""A topic, who was elected, and who had shown its log."""

_NOT_SHOWN: Final = "the database was set back, and not every replica has shown its log"
_LOST_SINCE: Final = "the database was set back, and a replica has lost the tail of its log since"
_BEST_IS_AWAY: Final = "the database was set back, and the replica that goes furthest cannot lead"


def hear(draft: Draft, link: LinkId, ends: Sequence[LogEnd]) -> None:
    """A broker shows logs. What answers another row than the present one is passed over: it says it again."""
    broker_id = draft.memory.broker_of(link)
    assert broker_id is not None
    wanted = []
    for one in ends:
        row = draft.partition((one.topic_id, one.partition))
        if row is not None and row.is_unproven and broker_id in row.assigned:
            wanted.append(one)
    if wanted:
        draft.memory.shown.add(broker_id, wanted)


def doubt(draft: Draft, broker_id: int, lost: LostTail) -> bool:
    """`broker_id` comes back without all that it held: perhaps nobody else had it (`doubt_is_forgotten`).

    False: the turn is full, and the rest is still to be done.
    """
    if lost == NOTHING_LOST:
        return True
    for row in tuple(_unproven(draft)):
        if row.unproven != DOUBTED and broker_id in row.assigned and lost.covers(row):
            if not draft.take_room():
                return False
            draft.put_partition(msgspec.structs.replace(row, unproven=DOUBTED, version=draft.version))
    return True


def said_hello(draft: Draft) -> None:
    """Somebody is there: from now on the patience with the others runs, where a row is unproven.

    Where none is any more, what was shown is forgotten: an operator, or a late log, may have proved the last.
    """
    if next(_unproven(draft), None) is not None:
        draft.memory.shown.look_by(after(draft.now, draft.settings.unproven_patience_ms))
    else:
        draft.memory.shown.drop_all()


def go_on(draft: Draft) -> None:
    """Elect where enough is known by now; what is too much for this turn is left to the next."""
    shown = draft.memory.shown
    if shown.look_at is not None and shown.look_at <= draft.now:
        shown.look_at = None
        unproven = [row.key for row in _unproven(draft)]
        if not unproven:
            shown.drop_all()
            return
        shown.unjudged.update(dict.fromkeys(unproven))
    live = draft.live() if shown.unjudged else set()
    compared: defaultdict[_Alike, list[ShownLogs]] = defaultdict(list)
    for key in tuple(shown.unjudged):
        row = draft.partition(key)
        if row is not None and row.is_unproven:
            choice = _judged(draft, row, ends := shown.of(key, row.leader_epoch), live)
            if choice is not None:
                if not draft.choose_if_room(as_it_was(draft, row), choice):
                    break
                elected = draft.partition(key)
                # Nobody leads, whoever was chosen, where leader epochs are used up.
                leader = elected.leader if elected else NO_LEADER
                compared[row.topic_id, leader, tuple(sorted(ends))].append(
                    _shown(row.partition, leader, ends)
                )
        del shown.unjudged[key]
    draft.other_records += [_compared(draft, alike, logs) for alike, logs in compared.items()]


def _unproven(draft: Draft) -> Iterator[PartitionRow]:
    """Every row that nobody leads for that. No turn makes one: only what was read can be unproven."""
    rows = chain.from_iterable(map(draft.partitions_of_topic, draft.rows.leaderless))
    return (row for row in rows if row.is_unproven)


def best_shown(draft: Draft, row: PartitionRow, live: set[int]) -> Choice | None:
    """The live replica whose shown log goes furthest, with those that are as far; None: none has."""
    return _best(row, draft.memory.shown.of(row.key, row.leader_epoch), live)


def as_it_was(draft: Draft, row: PartitionRow) -> PartitionRow:
    """For the note of a possible loss: who has not shown its log is asked, as well as who was in sync."""
    ends = draft.memory.shown.of(row.key, row.leader_epoch)
    isr = tuple(b for b in row.assigned if b in row.isr or b not in ends)
    return msgspec.structs.replace(row, isr=isr)


def _judged(draft: Draft, row: PartitionRow, ends: Mapping[int, LogEnd], live: set[int]) -> Choice | None:
    """Who leads from now on; None: nobody can tell yet."""
    usable = draft.usable(live, row)
    choice = _best(row, ends, usable)
    asked = [b for b in row.assigned if draft.broker(b) is not None]
    if choice is not None and all(b in ends for b in asked) and _goes_furthest(choice.leader, ends):
        return choice._replace(possible_loss=_LOST_SINCE if row.unproven == DOUBTED else "")
    if (proven := _proven(draft, row, ends, usable)) is not None:
        return proven
    if not _is_patience_over(draft, row):
        return None
    return _without_the_rest(draft, row, ends, usable, choice)


def _proven(draft: Draft, row: PartitionRow, ends: Mapping[int, LogEnd], usable: set[int]) -> Choice | None:
    """Who leads without the rest, as nothing was lost that anybody acted on; None: that is not proven.

    A turn that is lost has had no effect before its leader, or another member of the ISR, obeyed it; so where
    all of them tell that they have obeyed no row above the promoted database's, they hold what was committed.
    """
    at_most = draft.rows.proven_version
    # With unclean elections somebody else may have led while the whole ISR was cut off, and heard nothing.
    if row.unproven != UNPROVEN or draft.policy(row.topic_id).unclean or draft.memory.set_back:
        return None
    if any(end.proven_version > at_most for end in ends.values()):
        return None
    if not all(b in ends and ends[b].proven_version and _is_as_it_was(draft, b, row) for b in row.isr):
        return None
    choice = _best(row, {b: ends[b] for b in row.isr}, usable)
    return choice if choice is not None and _goes_furthest(choice.leader, ends) else None


def _is_as_it_was(draft: Draft, broker_id: int, row: PartitionRow) -> bool:
    """True if neither `row` nor the broker's has changed since the lift: this process was the one in sync.

    Another one under its id may have heard of less, and hold less (`another_process_is_believed`).
    """
    broker = draft.broker(broker_id)
    return broker is not None and broker.version == row.version


def _without_the_rest(
    draft: Draft, row: PartitionRow, ends: Mapping[int, LogEnd], usable: set[int], choice: Choice | None
) -> Choice | None:
    """Nobody is waited for any more. Who was not in sync leads only where the topic allows it."""
    unclean = draft.policy_for(row).unclean
    if choice is not None and (unclean or not set(row.isr).isdisjoint(ends)):
        all_told = all(b in ends for b in row.assigned)
        return choice._replace(possible_loss=_BEST_IS_AWAY if all_told else _NOT_SHOWN)
    # Brokers of before show nothing: of those the row is believed, as they would have it.
    sessions = draft.memory.sessions
    silent = {b for b in usable if sessions[b].since is not None and sessions[b].protocol < SHOWS_LOGS}
    believed = elect(row, row.isr, silent, unclean=False)
    if believed.leader not in silent:
        believed = (any_leader(row, silent) if unclean else None) or believed
    return believed._replace(possible_loss=_NOT_SHOWN) if believed.leader in silent else None


def _is_patience_over(draft: Draft, row: PartitionRow) -> bool:
    """True if one of its replicas has been there for so long; else all are looked at when it has."""
    sessions = (draft.memory.sessions.get(b) for b in row.assigned)
    since = min((one.since for one in sessions if one is not None and one.since is not None), default=None)
    if since is None:
        return False
    over_at = after(since, draft.settings.unproven_patience_ms)
    if over_at > draft.now:
        draft.memory.shown.look_by(over_at)
    return over_at <= draft.now


def _best(row: PartitionRow, ends: Mapping[int, LogEnd], live: set[int]) -> Choice | None:
    """The one that goes furthest, the first of the assignment among equals, and all that hold the same.

    What begins elsewhere is not the same: nobody has compared what lies below.
    """
    able = [b for b in row.assigned if b in ends and b in live]
    if not able:
        return None
    last_epoch, end_offset = _furthest([ends[b] for b in able], _latest_start(ends))
    furthest = [b for b in able if (ends[b].last_epoch, ends[b].end_offset) == (last_epoch, end_offset)]
    start_offset = max(ends[b].start_offset for b in furthest)
    isr = tuple(b for b in furthest if ends[b].start_offset == start_offset)
    return Choice(isr[0], isr)


def _goes_furthest(broker_id: int, ends: Mapping[int, LogEnd]) -> bool:
    end = ends[broker_id]
    return (end.last_epoch, end.end_offset) == _furthest(ends.values(), _latest_start(ends))


def _furthest(ends: Collection[LogEnd], begun: int) -> tuple[int, int]:
    """Of the log that holds all that any of these surely holds: the epoch of its last batch, and its end.

    What ends behind a batch of the same epoch holds what another such one does, and more if it is longer.
    """
    is_noted = all(end.led_epoch != NOT_NOTED for end in ends)
    last = max(ends, key=lambda end: _reach(end, begun, is_noted))
    return last.last_epoch, max(end.end_offset for end in ends if end.last_epoch == last.last_epoch)


def _latest_start(ends: Mapping[int, LogEnd]) -> int:
    """Below it all was committed, as only that is deleted: a log that ends there lacks some of it."""
    return max(one.start_offset for one in ends.values())


def _reach(end: LogEnd, begun: int, is_noted: bool) -> tuple[bool, int, int]:
    """What orders logs: the last leader epoch that wrote, or was led here, then the end (`end_before_epoch`).

    Before both that it goes as far as what others have deleted (`deleted_is_brought_back`). Brokers of before
    note no epoch: where one of them shows a log, batches alone decide.
    """
    epoch = max(end.last_epoch, end.led_epoch) if is_noted else end.last_epoch
    return end.end_offset >= begun, epoch, end.end_offset


def _shown(partition: int, leader: int, ends: Mapping[int, LogEnd]) -> ShownLogs:
    is_decided = leader in ends and any(end.last_epoch > ends[leader].last_epoch for end in ends.values())
    of_each = tuple(
        ShownEnd(end.last_epoch, end.end_offset, end.led_epoch if is_decided else NOT_NOTED)
        for _, end in sorted(ends.items())
    )
    return ShownLogs(partition, of_each if len(set(of_each)) > 1 else of_each[:1])


def _compared(draft: Draft, alike: _Alike, logs: Sequence[ShownLogs]) -> LogsCompared:
    topic_id, leader, broker_ids = alike
    topic = draft.topic(topic_id)
    return LogsCompared(topic_id, topic.name if topic else "", leader, broker_ids, tuple(logs))
