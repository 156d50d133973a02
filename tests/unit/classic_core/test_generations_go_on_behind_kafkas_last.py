"""A group goes on behind the last generation that Kafka's wire has room for (conformance 65)."""

import pytest

from coordinator.core.classic.offsets import judge
from coordinator.core.events import JoinAnswer
from gateway.translation.groups import join_answer
from groups.core.classic import LAST_TOLD, told_generation
from groups.core.state import GroupRows
from muster.kafkawire.api_table import ApiKey
from muster.kernel.error_codes import ErrorCode
from tests.unit.classic_core.group import ClassicGroup
from tests.unit.coordinator_core.group import orders
from tests.unit.gateway.test_members_are_worded_for_each_version import JOINS, answered

EDGES = [(LAST_TOLD - 2, LAST_TOLD - 1), (LAST_TOLD - 1, LAST_TOLD), (LAST_TOLD, 1), (2 * LAST_TOLD, 1)]
"""The generation before the rebalance, and what members hear of the one that it opens."""


def group_behind(generation: int) -> tuple[ClassicGroup, str]:
    """A group of one whose first generation follows this one, as after lifts."""
    group = ClassicGroup(rows=GroupRows("billing", generation=generation))
    (ann,) = group.completed("a")
    return group, ann


def last_answer(group: ClassicGroup) -> JoinAnswer:
    return next(one for one in reversed(group.answers.values()) if isinstance(one, JoinAnswer))


def test_members_hear_one_again_behind_the_last_while_rows_count_on() -> None:
    for before, told in EDGES:
        group, _ = group_behind(before)
        assert (last_answer(group).generation, group.rows.generation) == (told, before + 1)


@pytest.mark.parametrize("version", JOINS)
@pytest.mark.parametrize(("before", "told"), EDGES)
def test_the_answer_can_be_written_in_every_version(version: int, before: int, told: int) -> None:
    group, _ = group_behind(before)
    body = join_answer(version, last_answer(group))
    assert answered(ApiKey.JOIN_GROUP, version, body).generation_id == told


@pytest.mark.parametrize(("before", "told"), EDGES)
def test_a_member_syncs_beats_and_commits_in_the_generation_that_it_was_told(before: int, told: int) -> None:
    group, ann = group_behind(before)
    shared = group.sync(ann, {ann: b"all"}, generation=told)
    assert shared is not None and shared.error is ErrorCode.NONE
    assert group.beat(ann, told) is ErrorCode.NONE
    assert judge(group.state, ann, None, told, {orders(0): 7}, {}).error is ErrorCode.NONE


@pytest.mark.parametrize(("before", "told"), EDGES)
def test_who_was_left_behind_by_it_is_refused(before: int, told: int) -> None:
    group, ann = group_behind(before)
    for other in (told - 1, told + 1, told_generation(before)):
        refused = group.sync(ann, {ann: b"all"}, generation=other)
        assert refused is not None and refused.error is ErrorCode.ILLEGAL_GENERATION
        assert group.beat(ann, other) is ErrorCode.ILLEGAL_GENERATION
        assert judge(group.state, ann, None, other, {}, {}).error is ErrorCode.ILLEGAL_GENERATION


def test_a_generation_is_told_as_it_is_until_the_last() -> None:
    assert [told_generation(one) for one in (0, 1, LAST_TOLD)] == [0, 1, LAST_TOLD]
    assert [told_generation(LAST_TOLD + one) for one in (1, 2)] == [1, 2]
