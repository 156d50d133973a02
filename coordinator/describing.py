"""This room tells Kafka's tools about groups: DescribeGroups and ListGroups, of both worlds.

Native groups are shown as consumers: their protocol type is `consumer`, and subscriptions and assignments are
made into the bytes that Kafka's own consumers would have sent (design 6.1).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from coordinator.core.memory import GroupState
from groups.core.classic import ClassicMember, ClassicRows
from groups.core.consumer_protocol import CONSUMER, assignment, subscription
from groups.core.phases import Phase
from groups.core.state import GroupRows, Member
from muster.kernel.error_codes import ErrorCode

DEAD = "Dead"
"""The state of a group that does not exist (conformance 142)."""


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as DescribeGroups shows it; the host as its door saw it, behind a slash."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedMembers(Protocol):
    """Each is made when it is told: to make thousands of them holds a loop for as long as to word them."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[DescribedMember]: ...


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group as DescribeGroups shows it; `error` beside DEAD says that it does not exist."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    phase: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: DescribedMembers = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as ListGroups shows it. To Kafka's tools both worlds are of the type `classic`: another would
    make them ask with requests of a newer protocol, which nobody here answers.
    """

    group_id: str
    phase: str
    protocol_type: str


def described(group_id: str, state: GroupState | None) -> DescribedGroup:
    """One group, or that it does not exist (conformance 140 to 142)."""
    if state is None or not state.rows.version:
        return DescribedGroup(group_id, ErrorCode.GROUP_ID_NOT_FOUND, DEAD)
    if state.rows.classic is None:
        return _described_native(state.rows)
    return _described_classic(state.rows, state.rows.classic)


def listed(states: Iterable[GroupState]) -> Iterator[ListedGroup]:
    """The groups that exist (conformance 143)."""
    for state in states:
        rows = state.rows
        if rows.version:
            kind = CONSUMER if rows.classic is None else rows.classic.protocol_type
            yield ListedGroup(rows.group_id, rows.phase.value, kind)


@dataclass(frozen=True, slots=True)
class _Members:
    """The members of a group by their rows, which nobody writes in place."""

    rows: Collection[Any]
    tell: Callable[[Any], DescribedMember]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[DescribedMember]:
        return map(self.tell, self.rows)


def _described_classic(rows: GroupRows, classic: ClassicRows) -> DescribedGroup:
    """What the members agreed on is told while they agree: in any other phase it is being made anew."""
    stable = rows.phase is Phase.STABLE
    return DescribedGroup(
        rows.group_id,
        phase=rows.phase.value,
        protocol_type=classic.protocol_type,
        protocol_name=classic.protocol_name or "" if stable else "",
        members=_Members(
            classic.members.values(), partial(_classic_member, classic.protocol_name, agreed=stable)
        ),
    )


def _classic_member(protocol_name: str | None, one: ClassicMember, *, agreed: bool) -> DescribedMember:
    return DescribedMember(
        one.member_id,
        one.group_instance_id,
        one.client_id,
        one.client_host,
        one.metadata(protocol_name) if agreed else b"",
        one.assignment if agreed else b"",
    )


def _described_native(rows: GroupRows) -> DescribedGroup:
    """Rows are the truth about who owns what in every phase, so they are told in every phase."""
    return DescribedGroup(
        rows.group_id,
        phase=rows.phase.value,
        protocol_type=CONSUMER,
        protocol_name=rows.assignor if rows.members else "",
        members=_Members(rows.members.values(), partial(_native_member, rows)),
    )


def _native_member(rows: GroupRows, one: Member) -> DescribedMember:
    return DescribedMember(
        one.member_id,
        None,
        one.client_id,
        f"/{one.client_host}" if one.client_host else "",
        subscription(one.topics),
        _owned_by(rows, one.member_id),
    )


def _owned_by(rows: GroupRows, member_id: str) -> bytes:
    numbers: dict[str, list[int]] = defaultdict(list)
    for partition in rows.owned.get(member_id, ()):
        numbers[partition.topic].append(partition.number)
    return assignment(numbers)
