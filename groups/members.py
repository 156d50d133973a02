"""This room reads the members of one group with what each owns, as many at a time as are light enough."""

from dataclasses import dataclass

from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce

from access.rest.problems import Problem
from groups.models import NAME_LENGTH, ConsumerGroup, GroupMember, PartitionOwnership
from muster.kernel.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class OwningMember:
    """A member, and the rows of what it owns in the order of topic and partition."""

    member: GroupMember
    owned: list[PartitionOwnership]


def find_group(name: str) -> ConsumerGroup:
    """The group of this name. Raises Problem 404."""
    found = None
    if "\x00" not in name and len(name) <= NAME_LENGTH:
        found = ConsumerGroup.objects.filter(name=name).first()
    if found is None:
        raise Problem(404, "There is no such group.", ErrorCode.GROUP_ID_NOT_FOUND)
    return found


def members_after(
    group: ConsumerGroup, after: str, limit: int, most_owned: int
) -> tuple[list[OwningMember], bool]:
    """Members whose id comes after `after`, at most `limit`, and True if more follow.

    They end before they own more than `most_owned` partitions together; one is told whatever it owns.
    """
    owned = PartitionOwnership.objects.filter(group=group, owner=OuterRef("member_id"))
    counted = owned.order_by().values("owner").annotate(number=Count("*")).values("number")
    rows = GroupMember.objects.filter(group=group, member_id__gt=after).order_by("member_id")
    weighed = rows.annotate(number=Coalesce(Subquery(counted), 0)).values_list("member_id", "number")
    chosen: list[str] = []
    left, listed = most_owned, list(weighed[: limit + 1])
    for member_id, number in listed[:limit]:
        left -= number
        if chosen and left < 0:
            break
        chosen.append(member_id)
    found = rows.filter(member_id__in=chosen).defer("token_hash")
    told = {member.member_id: OwningMember(member, []) for member in found}
    ownership = PartitionOwnership.objects.filter(group=group, owner__in=chosen)
    for row in ownership.order_by("topic_name", "partition", "copy"):
        if row.owner in told:
            told[row.owner].owned.append(row)
    return list(told.values()), len(listed) > len(chosen)
