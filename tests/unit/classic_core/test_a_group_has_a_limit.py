"""group.max.size (conformance 34 to 37), and how much all members may state of themselves."""

from coordinator.core.events import Join
from coordinator.core.settings import GroupSettings
from groups.core.phases import Phase
from muster.kernel.error_codes import ErrorCode
from tests.unit.classic_core.group import ClassicGroup

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
TWO = GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=2)


def test_a_full_group_takes_no_stranger() -> None:  # 34
    group = ClassicGroup(TWO)
    ids = group.stable("a", "b")
    answer = group.join(client="c")
    assert answer is not None and (answer.error, answer.member_id) == (FULL, "")
    assert group.members == ids and group.is_in(Phase.STABLE)
    assert group.join(ids[0]) is None


def test_in_a_rebalance_the_first_to_join_have_a_place() -> None:  # 35
    group = ClassicGroup(TWO)
    ann, ben = group.stable("a", "b")
    group.join(ann)
    third = group.joining(client="c")
    group.turn(third)
    assert group.join_answer(third) is None
    assert group.join(ann) is None
    late = group.join(ben)
    assert late is not None and (late.error, late.member_id) == (FULL, "")
    assert group.members == [ann, third.fresh_member_id] and group.is_in(Phase.COMPLETING_REBALANCE)


def test_an_id_that_comes_too_late_is_dropped() -> None:  # 35
    group = ClassicGroup(TWO)
    ann, ben = group.stable("a", "b")
    group.settings = GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=9)
    given = group.join(client="c", knows_ids=True)
    assert given is not None
    group.settings = TWO
    events: list[Join] = [group.joining(ann), group.joining(ben), group.joining(given.member_id, client="c")]
    group.turn(*events)
    answer = group.join_answer(events[2])
    assert answer is not None and answer.error is FULL
    assert group.is_in(Phase.COMPLETING_REBALANCE) and group.state.classic.pending == {}


def test_a_group_that_is_too_large_when_loaded_rebalances() -> None:  # 36
    group = ClassicGroup()
    group.stable("a", "b", "c")
    group.settings = TWO
    group.take_over()
    assert group.is_in(Phase.PREPARING_REBALANCE)


def test_no_more_ids_wait_for_their_first_join_than_there_may_be_members() -> None:  # 37
    group = ClassicGroup(TWO)
    given = [group.join(client=name, knows_ids=True) for name in "abc"]
    assert [one.error for one in given if one] == [ErrorCode.MEMBER_ID_REQUIRED] * 2 + [FULL]
    assert len(group.state.classic.pending) == 2


def test_ids_that_wait_take_nobodys_place() -> None:  # 37
    group = ClassicGroup(TWO)
    [ann] = group.stable("a")
    for name in "xyz":
        group.join(client=name, knows_ids=True)
    joining = group.joining(client="b")
    group.turn(joining)
    group.join(ann)
    assert group.members == [ann, joining.fresh_member_id]


def test_who_would_make_the_metadata_too_long_is_refused_and_the_others_stay() -> None:
    group = ClassicGroup(GroupSettings(group_initial_rebalance_delay_ms=0, group_max_metadata_bytes=25))
    ids = group.stable("a", "b", protocols={"range": bytes(10)})
    answer = group.join(client="c", protocols={"range": bytes(6)})
    assert answer is not None and (answer.error, answer.member_id) == (FULL, "")
    assert group.members == ids and group.is_in(Phase.STABLE)
    group.take_over()
    assert group.state.classic.metadata_bytes == 20
    assert group.join(client="c", protocols={"range": bytes(5)}) is None


def test_who_states_no_more_than_before_may_stay_in_a_group_that_is_too_large() -> None:
    group = ClassicGroup()
    ann, _ = group.stable("a", "b", protocols={"range": bytes(10)})
    group.settings = GroupSettings(group_initial_rebalance_delay_ms=0, group_max_metadata_bytes=1)
    assert group.join(ann, protocols={"range": bytes(10)}) is None
    late = group.join(ann, protocols={"range": bytes(11)})
    assert late is not None and late.error is FULL


def test_what_a_member_had_that_states_too_much_goes_to_the_others() -> None:
    for follows in (True, False):
        group = ClassicGroup(GroupSettings(group_initial_rebalance_delay_ms=0, group_max_metadata_bytes=25))
        ids = group.stable("a", "b", protocols={"range": bytes(10)})
        late = next(one for one in ids if (one != group.leader) is follows)
        [other] = [one for one in ids if one != late]
        answer = group.join(late, protocols={"range": bytes(20)})
        assert answer is not None and answer.error is FULL
        assert group.members == [other] and group.is_in(Phase.PREPARING_REBALANCE)
        assert group.join(other) is not None and group.leader == other


def test_a_group_whose_last_member_states_too_much_is_empty() -> None:
    group = ClassicGroup(GroupSettings(group_initial_rebalance_delay_ms=0, group_max_metadata_bytes=25))
    [ann] = group.stable("a", protocols={"range": bytes(10)})
    answer = group.join(ann, protocols={"range": bytes(30)})
    assert answer is not None and answer.error is FULL
    assert group.members == [] and group.is_in(Phase.EMPTY)
