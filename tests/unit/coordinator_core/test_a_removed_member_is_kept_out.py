"""A member that an operator removed: cut off, its rows free when its session is over, its name kept out."""

from dataclasses import replace

import pytest
from msgspec import structs

from coordinator.core.decide import load
from coordinator.core.events import ConnectionId, HangUp, Join, JoinAnswer, Say, Waiter
from groups.core import records
from groups.core.classic import CLASSIC, ClassicMember, ClassicRows
from groups.core.consumer_protocol import subscription
from groups.core.phases import Phase
from groups.core.requests import (
    QUARANTINES_MAX,
    Answer,
    AnyWish,
    Asked,
    DeleteGroup,
    DeleteOffsets,
    GroupRequest,
    LiftQuarantine,
    Rebalance,
    RemoveMember,
    Scope,
    SetStrategy,
    Verdict,
)
from groups.core.rows import apply
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import RegisterConsumerResponse
from tests.unit.coordinator_core.group import SESSION_MS, Group, error_of, hung_up, orders

HOUR_MS = 3_600_000
WHY = "removed by olga: it stalls"


def asked(group: Group, wish: AnyWish) -> Answer:
    decision = group.turn(GroupRequest("r-1", "olga", "it stalls", Asked(wish)))
    (answer,) = (one.answer for one in decision.records if isinstance(one, records.RequestDecided))
    return answer


def taken_over(group: Group) -> Group:
    """The next owner, whose clock is its own."""
    after = Group(group.settings, group.rows)
    after.items = group.items
    after.rows = after.state.rows
    return after


def test_a_member_is_cut_off_at_once_and_owns_until_its_session_is_over() -> None:
    group = Group().settled("ann", "ben")
    decision = group.turn(GroupRequest("r-1", "olga", "it stalls", Asked(RemoveMember("ann"))))
    assert HangUp("ann/1", ErrorCode.MEMBER_EXPELLED, WHY) in decision.commands  # type: ignore[arg-type]
    assert len(group.rows.owned["ann"]) == 3
    group.wait(SESSION_MS + SESSION_MS // 100)
    assert "ann" in group.rows.owned
    decision = group.wait(1)
    assert records.MemberRemoved("ann", WHY) in decision.records and "ann" not in group.rows.owned


def test_it_may_come_again_when_its_session_is_over_and_not_before() -> None:
    group = Group().settled("ann", "ben")
    asked(group, RemoveMember("ann"))
    assert error_of(group.register("ann", connection="ann/2")) == ErrorCode.MEMBER_EXPELLED
    group.wait(SESSION_MS + SESSION_MS // 100 + 1)
    group.wait(1)
    assert group.rows.quarantined == {}
    assert error_of(group.register("ann", connection="ann/3")) == ErrorCode.NONE


def test_a_quarantine_keeps_the_name_out_for_its_time_whoever_has_it() -> None:
    group = Group().settled("ann", "ben")
    assert asked(group, RemoveMember("ann", HOUR_MS)).verdict is Verdict.DONE
    group.wait(HOUR_MS - 1)
    decision = group.register("ann", connection="ann/2", token="another")
    assert error_of(decision) == ErrorCode.MEMBER_EXPELLED
    (answer,) = decision.replies
    assert isinstance(answer, Say) and isinstance(answer.message, RegisterConsumerResponse)
    assert answer.message.error_text == f"{WHY}; refused for 1 s more"
    decision = group.wait(1)
    assert decision.records == (records.QuarantineEnded("ann"),)
    assert error_of(group.register("ann", connection="ann/3")) == ErrorCode.NONE


def test_a_new_owner_counts_the_whole_time_again() -> None:
    group = Group().settled("ann", "ben")
    asked(group, RemoveMember("ann", HOUR_MS))
    group.wait(HOUR_MS - 1)
    after = taken_over(group)
    after.wait(HOUR_MS - 1)
    assert error_of(after.register("ann", connection="ann/2")) == ErrorCode.MEMBER_EXPELLED
    after.wait(1)
    assert error_of(after.register("ann", connection="ann/2")) == ErrorCode.NONE


def test_a_new_owner_keeps_cut_off_who_was() -> None:
    group = Group().settled("ann", "ben")
    asked(group, RemoveMember("ann"))
    bound = {"ann": ConnectionId("ann/1")}
    loaded = load(group.rows, group.now, group.settings, group.surroundings, bound)
    assert loaded.state.memory.sessions["ann"].expelled and not loaded.state.memory.bound
    after = taken_over(group)
    assert error_of(after.register("ann", connection="ann/2")) == ErrorCode.MEMBER_EXPELLED
    after.wait(2 * SESSION_MS)
    assert "ann" not in after.rows.members and hung_up(after.wait(1)) == []


def test_a_quarantine_is_lifted_and_one_of_a_member_lasts_as_long_as_its_session() -> None:
    group = Group().settled("ann", "ben")
    assert asked(group, LiftQuarantine("ann")).error == ErrorCode.UNKNOWN_MEMBER_ID
    asked(group, RemoveMember("ann", HOUR_MS))
    assert "when its session is over" in asked(group, LiftQuarantine("ann")).text
    group.wait(SESSION_MS + SESSION_MS // 100 + 1)
    group.wait(1)
    assert group.rows.quarantined == {}
    asked(group, RemoveMember("cleo", HOUR_MS))
    assert asked(group, LiftQuarantine("cleo")).text == "cleo may come again."
    assert error_of(group.register("cleo")) == ErrorCode.NONE


def test_whoever_removes_it_again_without_a_time_takes_none_away() -> None:
    group = Group().settled("ann", "ben")
    asked(group, RemoveMember("ann", HOUR_MS))
    assert asked(group, RemoveMember("ann")).verdict is Verdict.DONE
    group.wait(HOUR_MS - 1)
    assert error_of(group.register("ann", connection="ann/2")) == ErrorCode.MEMBER_EXPELLED
    group.wait(1)
    assert error_of(group.register("ann", connection="ann/3")) == ErrorCode.NONE


def test_who_is_no_member_is_only_kept_out() -> None:
    group = Group().settled("ann")
    assert asked(group, RemoveMember("cleo")).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert asked(group, RemoveMember("cleo", HOUR_MS)).verdict is Verdict.DONE
    assert error_of(group.register("cleo")) == ErrorCode.MEMBER_EXPELLED


def test_names_that_are_kept_out_are_bounded() -> None:
    quarantines = [records.MemberQuarantined(f"m{number}", 1, "") for number in range(QUARANTINES_MAX)]
    rows = apply(GroupRows("readers", version=4), quarantines)
    assert asked(Group(rows=rows), RemoveMember("cleo", HOUR_MS)).error == ErrorCode.POLICY_VIOLATION


def test_a_classic_group_that_keeps_as_many_names_out_as_it_may_goes_on() -> None:
    group = classic("ann", "ben", "cleo")
    names = ["ann", *(f"m{number}" for number in range(1, QUARANTINES_MAX))]
    kept_out = [records.MemberQuarantined(name, HOUR_MS, "") for name in names]
    full = Group(rows=apply(group.rows, kept_out))
    assert asked(full, RemoveMember("ben-1", HOUR_MS)).error == ErrorCode.POLICY_VIOLATION
    assert asked(full, RemoveMember("ben-1")).verdict is Verdict.DONE
    # Its time begins anew; no name more is kept out.
    assert asked(full, RemoveMember("ann-0", HOUR_MS)).verdict is Verdict.DONE
    assert full.rows.classic is not None and list(full.rows.classic.members) == ["cleo-2"]


def classic(*client_ids: str, instance: str | None = None) -> Group:
    """A classic group that settled."""
    members = {
        f"{name}-{number}": ClassicMember(
            member_id=f"{name}-{number}",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            protocols=(("range", b""),),
            client_id=name,
            group_instance_id=instance,
        )
        for number, name in enumerate(client_ids)
    }
    rows = ClassicRows("consumer", "range", f"{client_ids[0]}-0" if client_ids else None, members)
    phase = Phase.STABLE if members else Phase.EMPTY
    return Group(rows=GroupRows("readers", 3, 7, phase, protocol=CLASSIC, classic=rows))


def joining(client_id: str, instance: str | None = None) -> Join:
    return Join(
        connection="k/1",  # type: ignore[arg-type]
        waiter=Waiter(1),
        fresh_member_id=f"{client_id}-new",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        client_id=client_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=(("range", b""),),
    )


def join_error(group: Group, event: Join) -> ErrorCode:
    answers = [one.message for one in group.turn(event).replies if isinstance(one, Say)]
    return next((one.error for one in answers if isinstance(one, JoinAnswer)), ErrorCode.NONE)


def test_a_classic_member_is_removed_at_once_and_the_others_share_anew() -> None:
    group = classic("ann", "ben")
    assert asked(group, RemoveMember("ann-0")).verdict is Verdict.DONE
    assert group.rows.classic is not None and list(group.rows.classic.members) == ["ben-1"]
    assert group.rows.phase is Phase.PREPARING_REBALANCE


def test_a_classic_member_is_kept_out_by_the_name_that_it_keeps() -> None:
    group = classic("ann", "ben", instance=None)
    asked(group, RemoveMember("ann-0", HOUR_MS))
    assert join_error(group, joining("ann")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert join_error(group, joining("cleo")) is ErrorCode.NONE
    static = classic("ann", instance="pod-0")
    asked(static, RemoveMember("ann-0", HOUR_MS))
    assert join_error(static, joining("ann", "pod-0")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert join_error(static, joining("ann", "pod-1")) is ErrorCode.NONE


@pytest.mark.parametrize("quarantine_ms", [0, HOUR_MS])
def test_a_static_member_is_removed_by_the_name_that_pages_show(quarantine_ms: int) -> None:
    static = classic("ann", instance="pod-0")
    assert asked(static, RemoveMember("pod-0", quarantine_ms)).text.startswith("ann-0 is removed")
    assert static.rows.classic is not None and not static.rows.classic.members
    expected = ErrorCode.COORDINATOR_NOT_AVAILABLE if quarantine_ms else ErrorCode.NONE
    assert join_error(static, joining("ann", "pod-0")) is expected


def test_clients_of_one_name_are_not_told_apart() -> None:
    answer = asked(classic("app", "app"), RemoveMember("app-0", HOUR_MS))
    assert (answer.verdict, answer.error) == (Verdict.REFUSED, ErrorCode.INVALID_REQUEST)


def test_a_classic_group_rebalances_by_request_and_assigns_by_its_leader() -> None:
    group = classic("ann", "ben")
    assert asked(group, SetStrategy("range")).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert asked(group, DeleteGroup()).error == ErrorCode.NON_EMPTY_GROUP
    assert asked(group, Rebalance()).verdict is Verdict.DONE
    assert group.rows.phase is Phase.PREPARING_REBALANCE


def test_an_empty_classic_group_is_deleted() -> None:
    group = classic()
    decision = group.turn(GroupRequest("r-1", "olga", "it stalls", Asked(DeleteGroup())))
    assert isinstance(decision.records[-1], records.GroupDeleted)


def test_offsets_of_what_a_classic_member_reads_or_may_read_stay() -> None:
    group = classic("ann")
    assert group.rows.classic is not None
    (ann,) = group.rows.classic.members.values()
    offsets = {orders(0): 5, orders(0)._replace(topic="clicks"): 6}
    for metadata, error in (
        (subscription(["clicks"]), ErrorCode.NONE),
        (subscription(["orders"]), ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        (b"?", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
    ):
        member = structs.replace(ann, protocols=(("range", metadata),))
        rows = replace(group.rows.classic, members={ann.member_id: member})
        asking = Group(rows=replace(group.rows, classic=rows, offsets=offsets))
        assert asked(asking, DeleteOffsets((Scope("orders"),))).error == error
