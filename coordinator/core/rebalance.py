"""This room is the rebalance handler: who should own what, and is a rebalance necessary (000 chapter 9)?

A worker runs it on rows that it read; the owner of the group's shard adopts the result in a turn.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from coordinator.core.assignors import redundant
from coordinator.core.assignors.interface import Question, Shares
from coordinator.core.assignors.registry import ASSIGNORS, DEFAULT_ASSIGNOR
from coordinator.core.proposal import Move, Proposal, Share
from groups.core.state import GroupRows, Member
from groups.core.subscriptions import wanted
from muster.kernel.ids import TopicName
from muster.kernel.topology import Layouts
from muster.messages.member import TopicCount
from muster.messages.partitions import Partition, by_topic

Matches = Callable[[str, str], bool]
Finds = Callable[[str], Sequence[str]]
"""The topics that there are and that a pattern matches."""
Owners = Mapping[Partition, str]

NOBODY = ""
"""Stands for an owner in a move."""

NOTHING_OWNED = "no ownership is registered"
SOME_UNOWNED = "some partitions are not owned"
SOME_GONE = "some owned partitions exist no longer"
OTHER_OWNERS = "the ownership is not the computed one"
OTHER_STANDBYS = "the standbys are not the computed ones"

RACK_AWARE, REDUNDANT = "rackaware", "redundant"

MATCHES_MAX: Final = 20_000
"""Pairs of a pattern and a topic that one turn looks into: some 20 ms. Of others it does not know."""

PAIRS_MAX: Final = 5_000_000
"""Topics for which the patterns of all different lists stand together: a worker holds each of them in a
hundred bytes."""


class TooManyTopics(Exception):
    """The patterns of a group stand for more topics than a worker can hold."""


class Matched:
    """What patterns match, each pair looked into once, and no more of them than a turn may."""

    def __init__(self, matches: Matches, most: int = MATCHES_MAX) -> None:
        self._matches = matches
        self._left = most
        self._known: dict[tuple[str, str], bool] = {}

    def __call__(self, pattern: str, topic: str) -> bool | None:
        """None: it is not known."""
        known = self._known.get((pattern, topic))
        if known is None and self._left:
            self._left -= 1
            known = self._known[pattern, topic] = self._matches(pattern, topic)
        return known


def compute(rows: GroupRows, layouts: Layouts, matches: Matches, finds: Finds | None = None) -> Proposal:
    """Snapshot and moves; needs version, members, ownership, standbys and strategy of `rows`, nothing else.

    Racks are those that the layouts tell. `finds` is a quicker way to what `matches` says of each. Raises
    TooManyTopics.
    """
    question = _question(rows, layouts, finds or _one_by_one(layouts, matches))
    shares = ASSIGNORS.get(rows.assignor, ASSIGNORS[DEFAULT_ASSIGNOR])(question)
    target = {partition: member for member, partitions in shares.items() for partition in partitions}
    standbys = redundant.stand_by(question, shares) if rows.assignor == REDUNDANT else {}
    return Proposal(
        version=rows.version,
        members=tuple(sorted(rows.members)),
        moves=moves(question.owner_of, target),
        why=why_necessary(question.owner_of, target) or _why_others_stand_by(rows, standbys),
        standbys=tuple(Share(member, by_topic(mine)) for member, mine in standbys.items() if mine),
    )


def moves(stored: Owners, target: Owners) -> tuple[Move, ...]:
    """What changes its owner, by giver and taker."""
    moved: dict[tuple[str, str], list[Partition]] = {}
    for partition, taker in target.items():
        giver = stored.get(partition, NOBODY)
        if giver != taker:
            moved.setdefault((giver, taker), []).append(partition)
    if len(stored) > len(target) or not stored.keys() <= target.keys():
        for partition, giver in stored.items():
            if partition not in target:
                moved.setdefault((giver, NOBODY), []).append(partition)
    return tuple(Move(giver, taker, by_topic(moved[giver, taker])) for giver, taker in sorted(moved))


def _why_others_stand_by(rows: GroupRows, standbys: Shares) -> str:
    target = {member: frozenset(partitions) for member, partitions in standbys.items()}
    return "" if target == rows.standbys else OTHER_STANDBYS


def reads(member: Member, topic: str, matches: Matches) -> bool:
    """Does the member subscribe to this topic, by its name or by a pattern?"""
    asked = wanted(member.topic_count)
    return topic in asked.threads or any(matches(entry.topic, topic) for entry in asked.patterns)


def somebody_reads(members: Iterable[Member], matches: Matches) -> Callable[[str], bool]:
    """Whether any of them subscribes to a topic, or may; what thousands have alike is looked at once."""
    names, patterns = _interests({id(one.topic_count): one.topic_count for one in members})
    matched, in_order = Matched(matches), sorted(patterns)
    return lambda topic: topic in names or any(matched(one, topic) is not False for one in in_order)


def why_necessary(stored: Owners, target: Owners) -> str:
    """The first of the four tests that finds the stored ownership wanting; empty if none does."""
    if target and not stored:
        return NOTHING_OWNED
    if not target.keys() <= stored.keys():
        return SOME_UNOWNED
    if not stored.keys() <= target.keys():
        return SOME_GONE
    if target != stored:
        return OTHER_OWNERS
    return ""


def interests(rows: GroupRows) -> tuple[frozenset[str], frozenset[str]]:
    """The topic names and the patterns that the group's members subscribe to."""
    return _interests(_subscriptions(rows))


def _interests(subscriptions: Mapping[int, tuple[TopicCount, ...]]) -> tuple[frozenset[str], frozenset[str]]:
    names: set[str] = set()
    patterns: set[str] = set()
    for subscription in subscriptions.values():
        for entry in subscription:
            (patterns if entry.is_pattern else names).add(entry.topic)
    return frozenset(names), frozenset(patterns)


def topics_read(rows: GroupRows, layouts: Layouts, finds: Finds) -> list[TopicName]:
    """The topics that exist and that any member subscribes to."""
    names, patterns = interests(rows)
    read = set(names).union(*map(finds, patterns))
    return [name for name in layouts if name in read]


def _one_by_one(layouts: Layouts, matches: Matches) -> Finds:
    return lambda pattern: [name for name in layouts if matches(pattern, name)]


def _question(rows: GroupRows, layouts: Layouts, finds: Finds) -> Question:
    known = {str(name): layout for name, layout in layouts.items()}
    matching = _matching(_subscriptions(rows).values(), finds)
    threads = {key: _threads(one, known, matching) for key, one in _subscriptions(rows).items()}
    members = {member_id: threads[id(member.topic_count)] for member_id, member in rows.members.items()}
    read = {name for one in threads.values() for name in one}
    return Question(
        members=members,
        topics={name: known[name] for name in read},
        owner_of={partition: member_id for member_id, tenures in rows.owned.items() for partition in tenures},
        rack_of={member_id: member.rack for member_id, member in rows.members.items() if member.rack},
        copies=rows.copies,
        willing=frozenset(member_id for member_id, member in rows.members.items() if member.stands_by),
        standbys=rows.standbys,
    )


def _matching(subscriptions: Iterable[tuple[TopicCount, ...]], finds: Finds) -> dict[str, Sequence[str]]:
    """The topics by pattern. Raises TooManyTopics."""
    matching: dict[str, Sequence[str]] = {}
    pairs = 0
    for subscription in subscriptions:
        for entry in subscription:
            if not entry.is_pattern:
                continue
            found = matching.get(entry.topic)
            if found is None:
                found = matching[entry.topic] = finds(entry.topic)
            pairs += len(found)
            if pairs > PAIRS_MAX:
                raise TooManyTopics(f"the patterns of the group stand for more than {PAIRS_MAX} topics")
    return matching


def _subscriptions(rows: GroupRows) -> dict[int, tuple[TopicCount, ...]]:
    """Each list of topics once, by its identity: the store gives those who subscribe alike the same one."""
    return {id(member.topic_count): member.topic_count for member in rows.members.values()}


def _threads(
    subscription: tuple[TopicCount, ...], known: Iterable[str], matching: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    threads: dict[str, int] = {}
    for entry in subscription:
        if entry.is_pattern:
            for name in matching[entry.topic]:
                threads[name] = max(threads.get(name, 0), entry.threads)
    for entry in subscription:
        if not entry.is_pattern and entry.topic in known:
            threads[entry.topic] = entry.threads
    return threads
