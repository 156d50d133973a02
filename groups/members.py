"""This room reads the members of one group with what each owns, as many at a time as are light enough."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce

from access.rest.problems import Problem
from groups import queries
from groups.core.consumer_protocol import CONSUMER, Subscription, stated_subscription
from groups.models import (
    NAME_LENGTH,
    ClassicMember,
    ConsumerGroup,
    GroupMember,
    PartitionOwnership,
    Protocol,
)
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scopes import EVERYTHING, Scope


@dataclass(frozen=True, slots=True)
class Owned:
    """One partition of a member. Of a classic one only the name of the topic is sure, which may not exist."""

    topic_name: str
    topic_id: UUID | None
    partition: int
    state: str
    since_generation: int | None


@dataclass(frozen=True, slots=True)
class OwningMember:
    """A member, what it owns, and what it stands by for, in the order of topic and partition."""

    member: GroupMember | ClassicMember
    owned: Sequence[Owned]
    stated: Subscription | None = None
    standby_for: Sequence[Owned] = ()


def find_group(name: str) -> ConsumerGroup:
    """The group of this name. Raises Problem 404."""
    found = None
    if "\x00" not in name and len(name) <= NAME_LENGTH:
        found = ConsumerGroup.objects.filter(name=name).first()
    if found is None:
        raise Problem(404, "There is no such group.", ErrorCode.GROUP_ID_NOT_FOUND)
    return found


def count_members(group: ConsumerGroup) -> int:
    """How many members the group has, in whichever world it is."""
    return group.members.count() + group.classic_members.count()


def stated_by(member: ClassicMember, group: ConsumerGroup) -> Subscription | None:
    """What a Kafka consumer says to the chosen strategy, else to its first; None if nobody can read it."""
    if group.protocol_type != CONSUMER or not member.protocol_names:
        return None
    names: list[str] = member.protocol_names
    place = names.index(group.protocol_name) if group.protocol_name in names else 0
    return stated_subscription(bytes(member.protocol_metadata[place]))


def members_after(
    group: ConsumerGroup, after: str, limit: int, most_owned: int, topics: Scope = EVERYTHING
) -> tuple[list[OwningMember], bool]:
    """Members whose id comes after `after`, at most `limit`, and True if more follow.

    They end before they own more than `most_owned` partitions together; one is told whatever it owns.
    `topics`: those of which whoever asks may know whether they are there.
    """
    if group.protocol == Protocol.CLASSIC:
        return _classic_after(group, after, limit, most_owned, topics)
    owned = PartitionOwnership.objects.filter(group=group, owner=OuterRef("member_id"))
    counted = owned.order_by().values("owner").annotate(number=Count("*")).values("number")
    rows = GroupMember.objects.filter(group=group, member_id__gt=after).order_by("member_id")
    weighed = rows.annotate(number=Coalesce(Subquery(counted), 0)).values_list("member_id", "number")
    listed = list(weighed[: limit + 1])
    chosen = [member_id for member_id, _ in _light_enough(listed[:limit], most_owned)]
    owns: dict[str, list[Owned]] = {member_id: [] for member_id in chosen}
    standby_for: dict[str, list[Owned]] = {member_id: [] for member_id in chosen}
    ownership = PartitionOwnership.objects.filter(group=group, owner__in=chosen)
    for row in ownership.order_by("topic_name", "partition"):
        told = standby_for if row.copy else owns
        told[row.owner].append(
            Owned(row.topic_name, row.topic_id, row.partition, row.state, row.since_generation)
        )
    found = rows.filter(member_id__in=chosen).defer("token_hash")
    members = [
        OwningMember(one, owns[one.member_id], standby_for=standby_for[one.member_id]) for one in found
    ]
    return members, len(listed) > len(chosen)


def _classic_after(
    group: ConsumerGroup, after: str, limit: int, most_owned: int, topics: Scope
) -> tuple[list[OwningMember], bool]:
    rows = ClassicMember.objects.filter(group=group, member_id__gt=after).order_by("member_id")
    listed = [(row, sum(map(len, row.observed.values()))) for row in rows.defer("assignment")[: limit + 1]]
    chosen = [row for row, _ in _light_enough(listed[:limit], most_owned)]
    names = {name for row in chosen for name in row.observed}
    # Its leader may name any topic: who may not know of one is not told by its id that it is there.
    ids = queries.topic_ids(filter(topics.covers, names))
    told = [OwningMember(row, _observed(row, ids), stated_by(row, group)) for row in chosen]
    return told, len(listed) > len(chosen)


def _light_enough(listed: Sequence[tuple[Any, int]], most_owned: int) -> Sequence[tuple[Any, int]]:
    """The first of these (member, how much it owns), one in any case."""
    left = most_owned
    for place, (_, number) in enumerate(listed):
        left -= number
        if place and left < 0:
            return listed[:place]
    return listed


def _observed(row: ClassicMember, ids: dict[str, UUID]) -> list[Owned]:
    return [
        Owned(topic, ids.get(topic), partition, "running", None)
        for topic in sorted(row.observed)
        for partition in row.observed[topic]
    ]
