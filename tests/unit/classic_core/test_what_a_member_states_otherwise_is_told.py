"""A member that joins again with something else is the cause of a rebalance: people are told what it was."""

import struct
from collections.abc import Mapping, Sequence

import pytest

from coordinator.core.classic.restated import words
from groups.core.classic import ClassicMember
from groups.core.consumer_protocol import subscription
from groups.core.phases import Phase
from groups.core.rebalances import rebalances
from groups.core.records import ClassicMemberChanged, PhaseEntered
from tests.unit.classic_core.group import AT_ONCE, ClassicGroup


def stated(*topics: str, owned: Mapping[str, Sequence[int]] | None = None, user_data: bytes = b"") -> bytes:
    """What a consumer states in version 1."""
    plain = subscription(topics)
    parts = [struct.pack(">h", 1), plain[2:-4], struct.pack(">i", len(user_data)), user_data]
    parts.append(struct.pack(">i", len(owned or {})))
    for topic, numbers in (owned or {}).items():
        name = topic.encode()
        parts += [
            struct.pack(">h", len(name)),
            name,
            struct.pack(f">{len(numbers) + 1}i", len(numbers), *numbers),
        ]
    return b"".join(parts)


def member(**protocols: bytes) -> ClassicMember:
    return ClassicMember(
        member_id="a-1",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        protocols=tuple(protocols.items()),
    )


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (member(range=b"v1"), member(sticky=b"v1", range=b"v1"), "other protocols: sticky, range"),
        (
            member(range=b""),
            member(**{f"{number}{'s' * 1_000}": b"" for number in range(7)}),
            "other protocols: " + ", ".join(str(number) + "s" * 59 for number in range(4)) + " and 3 more",
        ),
        (member(range=b"v1"), member(range=b"v2"), "other metadata"),
        (member(range=stated("orders")), member(range=stated("orders", user_data=b"!")), "other metadata"),
        (
            member(range=stated("orders")),
            member(range=stated("orders", owned={"orders": [0, 1]})),
            "other partitions of its own",
        ),
        (
            member(range=stated("orders", "old")),
            member(range=stated("orders", "clicks")),
            "other topics: +clicks −old",
        ),
        (
            member(range=stated("a", "b")),
            member(range=stated("c", "d", "e")),
            "other topics: +3 topics −a, b",
        ),
        (member(range=b"v1"), member(range=b"v1"), ""),
    ],
)
def test_what_is_new_is_said_in_words(before: ClassicMember, now: ClassicMember, told: str) -> None:
    assert words(before, now) == told


def test_nothing_is_read_of_what_many_state_one_after_the_other_or_of_what_is_long() -> None:
    """500 members of 100 topics held the loop for 0.4 s when they joined again."""
    before, now = member(range=stated("orders")), member(range=stated("clicks"))
    assert words(before, now, briefly=True) == "other metadata"
    assert words(before, member(sticky=b""), briefly=True) == "other protocols: sticky"
    many = member(range=stated(*(f"topic-{number}" for number in range(1_000))))
    assert words(before, many) == "other metadata"
    group = ClassicGroup(AT_ONCE)
    ann, ben = group.completed("a", "b")
    group.turn(*(group.joining(one, protocols={"range": stated("orders")}) for one in (ann, ben)))
    assert told_of(group, ann, "clicks") == "other topics: +clicks −orders"
    assert told_of(group, ben, "clicks") == "other metadata", "the rebalance goes on"


def told_of(group: ClassicGroup, member_id: str, topic: str) -> str:
    """What is recorded when it joins with a subscription to this topic."""
    decision = group.turn(group.joining(member_id, protocols={"range": stated(topic)}))
    (changed,) = [one for one in decision.records if isinstance(one, ClassicMemberChanged)]
    return changed.what


def test_the_cause_of_a_rebalance_names_what_changed() -> None:
    group = ClassicGroup(AT_ONCE)
    _, ben = group.completed("a", "b")
    decision = group.turn(group.joining(ben, protocols={"range": b"v2"}))
    (told,) = rebalances([(group.now, "turn", decision.records)])
    assert (told.cause, told.detail) == ("member joined with other metadata", ben)
    (entered,) = [one for one in decision.records if isinstance(one, PhaseEntered)]
    assert entered.phase is Phase.PREPARING_REBALANCE and entered.cause == f"{ben} joined with other metadata"
