"""This room gives partitions back to who stands first for them, and elects whom operators ask for.

Conformance 173 to 175, 208, 209. A pass looks at every partition now and then and changes a bounded number;
nothing here is unclean but what an operator, or a topic's own setting, wants so.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from controller.core import recount
from controller.core.draft import Draft
from controller.core.election import (
    Choice,
    after_return,
    any_leader,
    can_be_led_anew,
    first_leader,
    never_led,
)
from controller.core.events import LinkId, Say
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import after
from muster.messages.link.from_broker import ElectLeaders
from muster.messages.link.rows import NO_LEADER, PartitionRow
from muster.messages.link.to_broker import ElectionResult, ElectionResults

SOON_MS: Final = 1_000
"""Until the next pass if one has left something undone."""

_USED_UP: Final = (
    "its leader epochs are used up: nobody can be elected; create the topic anew under another name"
)
_NOT_IN_SYNC: Final = "is not live and in sync"

# ---------------------------------------------------------------------------------- what operators ask for


def elect(draft: Draft, link: LinkId, frame: ElectLeaders) -> None:
    """Elect the preferred leader of each partition, or any live replica where nobody leads (208, 209).

    Of all partitions, those that need no election are left out of the answer.
    """
    results = []
    for topic, number, row in _wanted(draft, frame):
        error, text = _elected(draft, row, frame)
        if error is not ErrorCode.ELECTION_NOT_NEEDED or frame.partitions is not None:
            results.append(ElectionResult(topic=topic, partition=number, error=error, text=text))
    answer = ElectionResults(correlation_id=frame.correlation_id, results=tuple(results))
    draft.replies.append(Say(link, answer))


def not_written(frame: ElectLeaders, why: str) -> ElectionResults:
    """The answer to a request whose turn could not be written."""
    text = f"{why}; nobody was elected"
    return ElectionResults(
        correlation_id=frame.correlation_id,
        results=tuple(
            ElectionResult(topic=topic, partition=number, error=ErrorCode.UNKNOWN_SERVER_ERROR, text=text)
            for topic, number in frame.partitions or ()
        ),
    )


def _wanted(draft: Draft, frame: ElectLeaders) -> Iterator[tuple[str, int, PartitionRow | None]]:
    if frame.partitions is None:
        names = {topic_id: row.name for topic_id, row in draft.all_topics().items()}
        yield from ((names[row.topic_id], row.partition, row) for row in tuple(draft.all_partitions()))
        return
    for name, number in dict.fromkeys(frame.partitions):
        topic = draft.topic_named_like(name)
        known = topic is not None and topic.name == name
        yield name, number, draft.partition((topic.topic_id, number)) if topic and known else None


def _elected(draft: Draft, row: PartitionRow | None, frame: ElectLeaders) -> tuple[ErrorCode, str]:
    if row is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition"
    usable = draft.usable(draft.live(), row)
    if frame.unclean:
        if row.leader != NO_LEADER:
            return ErrorCode.ELECTION_NOT_NEEDED, f"broker {row.leader} leads"
        if not can_be_led_anew(row):
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, _USED_UP
        choice = _unclean(draft, row, usable, frame.principal)
        row = recount.as_it_was(draft, row) if row.is_unproven else row
        if choice is None:
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "none of its replicas is live"
    else:
        first = row.assigned[0]
        if row.leader == first:
            return ErrorCode.ELECTION_NOT_NEEDED, f"broker {first} leads"
        if not can_be_led_anew(row):
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, _USED_UP
        choice = _preferred(row, _take_records(draft, usable))
        if choice is None:
            is_full = _preferred(row, usable) is not None
            text = f"broker {first} " + ("takes no records: its disk is full" if is_full else _NOT_IN_SYNC)
            text = recount.WAITS if row.is_unproven else text
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text
    if not draft.choose_if_room(row, choice):
        most = draft.settings.max_changed_in_bulk
        return ErrorCode.REQUEST_TIMED_OUT, f"one request elects at most {most} leaders; ask again"
    return ErrorCode.NONE, ""


def _unclean(draft: Draft, row: PartitionRow, live: set[int], principal: str) -> Choice | None:
    """Any live replica, whatever it lacks, because somebody asked for it.

    Where logs were shown, the best of them: whoever asks does not wait for the others.
    """
    if never_led(row):
        return first_leader(row, live)
    choice = recount.best_shown(draft, row, live) if row.is_unproven else None
    choice = choice or any_leader(row, live)
    if choice is None:
        return None
    return choice._replace(possible_loss=f"unclean election asked for by {principal or 'somebody'}")


def _preferred(row: PartitionRow, live: set[int]) -> Choice | None:
    """Its first replica leads if that is live and in sync; the ISR stays (175)."""
    first = row.assigned[0]
    may_lead = first in row.isr and first in live and can_be_led_anew(row) and not row.is_unproven
    return Choice(first, row.isr) if may_lead else None


def _take_records(draft: Draft, live: set[int]) -> set[int]:
    """Those of `live` whose disk has room: to the others nothing is given back, they would offer it again."""
    return live - {broker_id for broker_id, one in draft.memory.sessions.items() if one.disk_is_full}


# ---------------------------------------------------------------------------------- the pass


def begin(draft: Draft) -> None:
    """A new owner looks for the first time when an interval has passed: brokers come back first."""
    draft.memory.balance_at = after(draft.now, draft.settings.leader_imbalance_check_interval_ms)


def balance_if_due(draft: Draft) -> None:
    """Look at every partition, if it is time, and change as many as a pass may."""
    due_at = draft.memory.balance_at
    if due_at is None or due_at > draft.now:
        return
    is_done = _pass(draft)
    interval_ms = draft.settings.leader_imbalance_check_interval_ms
    draft.memory.balance_at = after(draft.now, interval_ms if is_done else min(SOON_MS, interval_ms))


def _pass(draft: Draft) -> bool:
    """Elect where nobody leads and the topic allows it; give back what was led by others. False: not all."""
    room = draft.settings.max_elections_per_pass
    live = draft.live()
    takers = _take_records(draft, live)
    candidates: list[tuple[PartitionRow, Choice]] = []
    led_elsewhere: Counter[int] = Counter()
    for topic_id in draft.topic_ids():
        unclean = draft.policy(topic_id).unclean
        for row in tuple(draft.partitions_of_topic(topic_id)):
            if row.leader == row.assigned[0]:
                continue
            if row.leader == NO_LEADER:
                choice = None
                if unclean and row.is_unproven:
                    # Since patience was over it may have been allowed; the next turn judges.
                    draft.memory.shown.unjudged[row.key] = None
                if unclean and not never_led(row):
                    choice = after_return(row, draft.usable(live, row), draft.policy_for(row))
                if choice is not None:
                    if not room or not draft.choose_if_room(row, choice):
                        return False
                    room -= 1
                continue
            led_elsewhere[row.assigned[0]] += 1
            preferred = _preferred(row, draft.usable(takers, row))
            if preferred is not None:
                candidates.append((row, preferred))
    return not draft.settings.auto_leader_rebalance or _give_back(draft, candidates, led_elsewhere, room)


def _give_back(
    draft: Draft, candidates: list[tuple[PartitionRow, Choice]], led_elsewhere: Counter[int], room: int
) -> bool:
    """Of brokers that are too far from leading what they stand first for; False: not all of it."""
    stands_first = draft.rows.preferred
    most = draft.settings.leader_imbalance_per_broker_percentage
    far = {b for b, count in led_elsewhere.items() if count * 100 > most * max(1, stands_first[b])}
    for row, choice in candidates:
        if choice.leader not in far:
            continue
        if not room or not draft.choose_if_room(row, choice):
            return False
        room -= 1
    return True
