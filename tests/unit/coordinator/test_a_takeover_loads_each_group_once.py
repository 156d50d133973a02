"""What a shard's owner reads in bulk is what it goes on with; only a group with members takes a turn."""

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator.core.memory import GroupState
from coordinator.service import NotServed
from coordinator.store import Unreadable
from groups.core.phases import Phase
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from tests.unit.coordinator.shards import MemoryGroups, Shards, eventually, readers


async def test_a_group_with_members_is_not_loaded_again_and_asks_for_a_handler() -> None:
    async with Shards([readers(ann=[0], ben=[1])]) as shards:
        service = await shards.serve("readers")
        await eventually(lambda: shards.rows("readers").handler_asked)
        assert shards.store.single_loads == []
        assert service._groups.states["readers"].rows == shards.rows("readers")
        assert {one.ends_at > 0 for one in cached(service._groups.states).memory.sessions.values()} == {True}


async def test_a_group_without_members_takes_no_turn() -> None:
    async with Shards([GroupRows("readers", version=3)]) as shards:
        service = await shards.serve("readers")
        assert service._groups.states["readers"].rows.version == 3
        assert shards.held[service.shard]._waiting == {}


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
        # Who heard that nothing is committed would begin anew.
        with pytest.raises(NotServed) as refused:
            await service.read("readers", lambda state: state.rows.offsets)
        assert refused.value.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
