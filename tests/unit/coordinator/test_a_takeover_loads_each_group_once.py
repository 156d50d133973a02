"""What a shard's owner reads in bulk is what it goes on with; only a group with members takes a turn."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from msgspec import structs

from coordinator.cluster_view import Gone
from coordinator.core.memory import GroupState
from coordinator.service import NotServed
from coordinator.store import Unreadable
from coordinator.subject import LOOKED_THROUGH_MAX
from groups.core.classic import CLASSIC, ClassicMember, ClassicRows
from groups.core.phases import Phase
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.kernel.shards import shard_of
from muster.kernel.topology import TopicLayout
from muster.messages.member import TopicCount
from runtime.refusals import Refused
from tests.simulation.native.topics import layout, layouts
from tests.unit.coordinator.shards import MemoryGroups, Shards, eventually, member, readers


async def test_a_group_with_members_is_not_loaded_again_and_asks_for_a_handler() -> None:
    async with Shards([readers(ann=[0], ben=[1])]) as shards:
        service = await shards.serve("readers")
        await eventually(lambda: shards.rows("readers").handler_asked)
        await shards.settled("readers")
        assert shards.store.single_loads == []
        assert service._groups.states["readers"].rows == shards.rows("readers")
        assert {one.ends_at > 0 for one in cached(service._groups.states).memory.sessions.values()} == {True}


async def test_a_group_without_members_takes_no_turn() -> None:
    async with Shards([GroupRows("readers", version=3)]) as shards:
        service = await shards.serve("readers")
        assert service._groups.states["readers"].rows.version == 3
        assert len(shards.held[service.shard]._line) == 0


async def test_rows_that_must_be_put_in_order_are_loaded_in_a_turn() -> None:
    async with Shards([GroupRows("readers", version=3, phase=Phase.PREPARING_REBALANCE)]) as shards:
        await shards.serve("readers")
        await eventually(lambda: shards.rows("readers").phase is Phase.EMPTY)
        assert shards.store.single_loads == ["readers"]


def cached(states: dict[str, GroupState]) -> GroupState:
    return states["readers"]


async def test_a_group_that_cannot_be_read_is_not_one_that_does_not_exist() -> None:
    class OneIsUnreadable(MemoryGroups):
        def load(self, connection: Any, key: str) -> GroupRows:
            raise Unreadable(key)

        def load_shard(self, connection: Any, shard: int) -> Mapping[str, GroupRows | None]:
            return dict.fromkeys(super().load_shard(connection, shard))

    shards = Shards([readers(ann=[0])])
    shards.premises.store = shards.store = OneIsUnreadable()
    async with shards:
        service = await shards.serve("readers")
        error = ErrorCode.NONE
        try:
            await service.read("readers", lambda state: state.rows.offsets)
        except NotServed as refused:
            error = refused.error
        assert error is ErrorCode.COORDINATOR_NOT_AVAILABLE, (
            "told that nothing is committed it would begin anew"
        )


async def test_rows_that_nobody_can_go_on_with_leave_the_others_of_the_shard_served() -> None:
    names: Any = ["a", "b"]
    nonsense = ClassicMember(
        member_id="ann", session_timeout_ms=1, rebalance_timeout_ms=1, protocols=((names, b""),)
    )
    bad = GroupRows("readers", version=3, protocol=CLASSIC, classic=ClassicRows(members={"ann": nonsense}))
    good = next(name for number in count() if shard_of(name := f"group-{number}") == shard_of("readers"))
    async with Shards([bad, GroupRows(good, version=3)]) as shards:
        told: list[Refused] = []
        shards.lanes.on_refused = told.append
        service = await shards.serve("readers")
        assert service.accepting and service._groups.states.keys() == {good}
        assert service._groups.must_be_loaded("readers")
        await eventually(lambda: told)
        assert [(one.key, one.events) for one in told] == [("readers", ())]


async def test_a_group_in_which_nothing_is_to_be_done_asks_nobody_until_its_topic_grows() -> None:
    async with Shards([readers(ann=[0], ben=[1])]) as shards:
        know(shards, layout("orders", 1, 2))
        service = await shards.serve("readers")
        await shards.settled("readers")
        assert shards.database.tables["journal"] == {}
        know(shards, layout("orders", 1, 3))
        service._topics_changed(frozenset({"orders"}), Gone(frozenset(), frozenset()))
        await eventually(lambda: shards.rows("readers").handler_asked)


async def test_a_group_whose_topic_grew_while_nobody_owned_it_asks_for_a_handler() -> None:
    async with Shards([readers(ann=[0], ben=[1])]) as shards:
        know(shards, layout("orders", 1, 3))
        await shards.serve("readers")
        await eventually(lambda: shards.rows("readers").handler_asked)


@pytest.mark.parametrize("how_many", [LOOKED_THROUGH_MAX, LOOKED_THROUGH_MAX + 1])
async def test_a_large_group_is_left_to_a_handler(how_many: int) -> None:
    async with Shards([readers(ann=range(how_many))]) as shards:
        know(shards, layout("orders", 1, how_many))
        await shards.serve("readers")
        await shards.settled("readers")
        assert shards.rows("readers").handler_asked is (how_many > LOOKED_THROUGH_MAX)


@pytest.mark.parametrize("how_many", [LOOKED_THROUGH_MAX, LOOKED_THROUGH_MAX + 1])
async def test_a_pattern_among_many_topics_is_left_to_a_handler(how_many: int) -> None:
    """One among 10,000 topics holds the loop for 18 ms, and a node takes over hundreds of such groups."""
    by_pattern = structs.replace(member("ann"), topic_count=(TopicCount("orders", is_pattern=True),))
    async with Shards([replace(readers(ann=[0]), members={"ann": by_pattern})]) as shards:
        others = (layout(f"airport-{number}", number + 2, 1) for number in range(how_many - 1))
        know(shards, layout("orders", 1, 1), *others)
        await shards.serve("readers")
        await shards.settled("readers")
        assert shards.rows("readers").handler_asked is (how_many > LOOKED_THROUGH_MAX)


def know(shards: Shards, *topics: TopicLayout) -> None:
    """The node has looked at the topics."""
    shards.premises.view._layouts = layouts(*topics)
