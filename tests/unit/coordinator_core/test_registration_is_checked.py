"""000 chapter 7: the consumer id is unique, the session timeout in bounds; nonsense is refused."""

import pytest

from coordinator.core.settings import GroupSettings
from groups.core.classic import ClassicMember, ClassicRows
from groups.core.phases import Phase
from groups.core.records import MemberAdded, MemberChanged
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import TopicCount
from tests.unit.coordinator_core.group import Group, error_of, hung_up, orders, registering


def test_a_new_consumer_is_added_and_its_token_is_not_stored() -> None:
    decision = Group().register("ann", "orders", auto_commit=False, client_id="app-1")
    added = decision.records[0]
    assert isinstance(added, MemberAdded)
    assert (added.member_id, added.auto_commit, added.client_id) == ("ann", False, "app-1")
    assert len(added.token_hash) == 64 and "token of ann" not in repr(decision.records)


@pytest.mark.parametrize("timeout_ms", [0, 5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    decision = Group().register("ann", session_timeout_ms=timeout_ms)
    assert error_of(decision) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert decision.records == () and decision.commands == ()


def test_a_doubled_consumer_id_is_refused_and_the_holder_is_left_alone() -> None:
    group = Group().settled("ann")
    before = group.state.memory.sessions["ann"]
    decision = group.register("ann", connection="ann/2", token="another")
    assert error_of(decision) == ErrorCode.DUPLICATE_CONSUMER_ID
    assert ErrorCode.DUPLICATE_CONSUMER_ID.retriable
    assert decision.records == () and hung_up(decision) == []
    assert group.state.memory.sessions["ann"] == before


def test_the_same_token_is_the_same_member_on_a_new_connection() -> None:
    group = Group().settled("ann")
    decision = group.register("ann", connection="ann/2")
    assert decision.records == ()
    assert error_of(decision) == ErrorCode.NONE
    assert hung_up(decision) == ["ann/1"]
    assert group.state.memory.bound == {"ann/2": "ann"}


def test_another_subscription_is_written_and_wants_a_rebalance() -> None:
    group = Group().settled("ann")
    decision = group.register("ann", "orders", "clicks", connection="ann/2")
    assert isinstance(decision.records[0], MemberChanged)
    assert group.rows.handler_asked


def test_a_topic_named_twice_is_refused() -> None:
    decision = Group().register("ann", "orders", "orders")
    assert error_of(decision) == ErrorCode.INVALID_SUBSCRIPTION


def test_a_pattern_of_257_characters_is_refused() -> None:
    group = Group()
    too_long = (TopicCount("o" * 249), TopicCount("x" * 257, is_pattern=True))
    assert error_of(group.register("ann", topic_count=too_long)) == ErrorCode.INVALID_SUBSCRIPTION


def test_a_connection_belongs_to_one_consumer() -> None:
    group = Group().settled("ann")
    decision = group.register("ben", connection="ann/1")
    assert error_of(decision) == ErrorCode.INVALID_CONSUMER_ID
    assert decision.records == ()


def test_a_full_group_takes_nobody_and_knows_its_members_still() -> None:
    group = Group(GroupSettings(group_max_size=1)).settled("ann")
    assert error_of(group.register("ben")) == ErrorCode.GROUP_SIZE_EXCEEDED
    assert error_of(group.register("ann", connection="ann/2")) == ErrorCode.NONE


def test_topics_that_do_not_exist_yet_may_be_subscribed() -> None:
    group = Group()
    assert error_of(group.register("ann", "payments")) == ErrorCode.NONE
    assert group.rebalance().state.rows.owned == {}


def test_a_thousand_registers_are_one_turn() -> None:
    group = Group()
    decision = group.turn(*(registering(f"member-{number}") for number in range(1_000)))
    assert len(decision.replies) == 1_000
    assert group.rows.version == 1


def test_a_group_of_another_protocol_is_left_alone() -> None:
    stranger = ClassicMember(
        member_id="app-1", session_timeout_ms=45_000, rebalance_timeout_ms=60_000, protocols=(("range", b""),)
    )
    classic = ClassicRows("consumer", "range", "app-1", {"app-1": stranger})
    rows = GroupRows("readers", version=7, phase=Phase.STABLE, protocol="classic", classic=classic)
    decision = Group(rows=rows).register("ann")
    assert error_of(decision) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert decision.records == ()


def test_a_group_without_members_comes_into_the_native_world_with_its_offsets() -> None:
    rows = GroupRows("readers", version=7, protocol="classic", classic=ClassicRows(), offsets={orders(0): 5})
    group = Group(rows=rows)
    assert error_of(group.register("ann")) == ErrorCode.NONE
    assert (group.rows.protocol, group.rows.classic, group.rows.offsets) == ("native", None, {orders(0): 5})
    assert group.rows.version == 8
