"""This room reads the members for the page of one group: all of them briefly, a few with what each owns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from groups import queries
from groups.core.consumer_protocol import Subscription
from groups.members import stated_by
from groups.models import ClassicMember, ConsumerGroup

_MOST_NAMED = 24


class NativeMember(NamedTuple):
    """What a page shows of a native member: of 5,000 rows whole objects cost a third of the page."""

    member_id: str
    client_id: str
    client_host: str
    rack: str
    node: str
    session_timeout_ms: int
    auto_commit: bool
    auto_offset_reset: str
    joined_s: float
    """Seconds since 1970: few of them are shown."""

    @property
    def joined_at(self) -> datetime:
        return datetime.fromtimestamp(self.joined_s, UTC)


Member = NativeMember | ClassicMember


def native_members(group: str) -> list[NativeMember]:
    """Every member of a native group, in the order of the ids."""
    statement = """
        SELECT member_id, client_id, client_host, rack, node, session_timeout_ms, auto_commit,
               auto_offset_reset, extract(epoch FROM joined_at)::float8 AS joined_s
        FROM group_member WHERE group_name = %(name)s ORDER BY member_id
    """
    return queries.rows_of(NativeMember, statement, {"name": group})


def classic_members(group: str) -> list[ClassicMember]:
    """The same of a classic group, without what its leader gave out."""
    return list(ClassicMember.objects.filter(group=group).defer("assignment").order_by("member_id"))


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member with what it owns and how far it is behind."""

    member: Member
    partitions: list[queries.PartitionStanding]
    stated: Subscription | None = None
    standby_for: list[queries.PartitionStanding] = field(default_factory=list)
    several_topics: bool = False
    """The group's, not this member's: a bare number would not say of which of them it is."""

    @property
    def since_generation(self) -> int | None:
        known = (row.since_generation for row in self.partitions if row.since_generation is not None)
        return min(known, default=None)

    @property
    def lag(self) -> int | None:
        known = [row.lag for row in self.partitions if row.lag is not None]
        return sum(known) if known or not self.partitions else None

    @property
    def unknown(self) -> bool:
        return any(row.lag is None for row in self.partitions)

    @property
    def assigned(self) -> int:
        """Partitions that it was not yet heard to have started."""
        return sum(1 for row in self.partitions if row.state == "assigned")

    @property
    def names(self) -> list[tuple[str, str]]:
        """Topics and the partitions of each, as a page lists them; a long list says how many.

        In a group of one topic the topic is left out.
        """
        return _names(self.partitions, self.several_topics)

    @property
    def standby_names(self) -> list[tuple[str, str]]:
        """The same, of what it stands by for."""
        return _names(self.standby_for, self.several_topics)


def rows_of(
    members: Iterable[Member],
    group: ConsumerGroup,
    standings: Iterable[queries.PartitionStanding],
    several_topics: bool,
) -> list[MemberRow]:
    """These members with what each of them owns and stands by for."""
    chosen = list(members)
    owned: dict[str, list[queries.PartitionStanding]] = {one.member_id: [] for one in chosen}
    stood_by: dict[str, list[queries.PartitionStanding]] = {one.member_id: [] for one in chosen}
    for row in standings:
        if row.owner in owned:
            owned[row.owner].append(row)
        for member in row.standbys or ():
            if member in stood_by:
                stood_by[member].append(row)
    return [
        MemberRow(
            one,
            owned[one.member_id],
            stated_by(one, group) if isinstance(one, ClassicMember) else None,
            stood_by[one.member_id],
            several_topics,
        )
        for one in chosen
    ]


def _names(partitions: Sequence[queries.PartitionStanding], several_topics: bool) -> list[tuple[str, str]]:
    if len(partitions) > _MOST_NAMED:
        return [("", f"{len(partitions)} partitions")]
    topics: dict[str, list[str]] = {}
    for row in partitions:
        topics.setdefault(row.topic_name, []).append(str(row.partition))
    return [(topic if several_topics else "", ", ".join(numbers)) for topic, numbers in topics.items()]
