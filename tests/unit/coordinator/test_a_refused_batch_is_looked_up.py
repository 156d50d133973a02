"""After a batch was refused its groups are loaded anew: what was refused may be stored nevertheless."""

from typing import Any

import pytest

from coordinator.store_offsets import GroupOffsets
from muster.kernel.error_codes import ErrorCode
from muster.kernel.shards import shard_of
from muster.messages.partitions import Partition, Position
from runtime import streams
from tests.unit.coordinator.shards import MemoryGroups, Shards, eventually, readers
from tests.unit.coordinator_core.group import orders

KEY = "readers"


def remembered(shards: Shards) -> dict[Partition, int]:
    return dict(shards.services[shard_of(KEY)]._groups.states[KEY].rows.offsets)


class Refusing(MemoryGroups):
    """Refuses the second writing, by a mistake of ours; the first may lose its answer."""

    loses_answer = False
    writings = 0

    def write_offsets(self, connection: Any, offsets: GroupOffsets) -> None:
        self.writings += 1
        if self.writings == 2:
            raise ValueError("a mistake of ours")
        if self.loses_answer:
            for link in connection.database.links:
                link.lose_answer = True
        super().write_offsets(connection, offsets)


async def test_what_was_written_before_its_second_writing_was_refused_is_known() -> None:
    shards = Shards([readers(ann=[0])])
    shards.premises.store = shards.store = store = Refusing()
    store.loses_answer = True
    async with shards:
        ann = await shards.registered(KEY, "ann")
        shards.commit(ann, KEY, {orders(0): Position(7, 1)})
        await eventually(lambda: ann.judged)
        assert ann.judged[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await shards.settled(KEY)
        assert shards.rows(KEY).offsets == {orders(0): 7}
        assert remembered(shards) == {orders(0): 7}


async def test_what_the_first_part_of_a_long_batch_wrote_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BATCH_ROWS_MAX", 1)
    shards = Shards([readers(ann=[0, 1])])
    shards.premises.store = shards.store = Refusing()
    async with shards:
        ann = await shards.registered(KEY, "ann")
        shards.commit(ann, KEY, {orders(0): Position(7, 1), orders(1): Position(8, 1)})
        await eventually(lambda: ann.judged)
        await shards.settled(KEY)
        assert shards.rows(KEY).offsets == {orders(0): 7}
        assert remembered(shards) == {orders(0): 7}


async def test_who_commits_while_the_group_is_loaded_anew_waits_for_it() -> None:
    shards = Shards([readers(ann=[0], ben=[1])])
    shards.premises.store = shards.store = store = Refusing()
    store.writings = 1
    async with shards:
        ann, ben = await shards.registered(KEY, "ann"), await shards.registered(KEY, "ben")
        shards.commit(ann, KEY, {orders(0): Position(7, 1)})
        await eventually(lambda: ann.judged)
        shards.commit(ben, KEY, {orders(1): Position(9, 1)})
        await eventually(lambda: ben.judged)
        assert [one.error for one in (*ann.judged, *ben.judged)] == [
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NONE,
        ]
        assert shards.rows(KEY).offsets == {orders(1): 9}


class Picky(MemoryGroups):
    """Writes nothing of one group, by a mistake of ours."""

    def write_offsets(self, connection: Any, offsets: GroupOffsets) -> None:
        if any(key == KEY for key, _ in offsets):
            raise ValueError("a mistake of ours")
        super().write_offsets(connection, offsets)


async def test_a_group_that_cannot_be_written_takes_no_other_of_its_shard_with_it() -> None:
    others = [key for key in map(str, range(10_000)) if shard_of(key) == shard_of(KEY)][:3]
    shards = Shards([readers(ann=[0]), *(readers(key=key, ben=[0]) for key in others)])
    shards.premises.store = shards.store = Picky()
    async with shards:
        callers = {
            key: await shards.registered(key, "ann" if key == KEY else "ben") for key in (KEY, *others)
        }
        for key, caller in callers.items():
            shards.commit(caller, key, {orders(0): Position(7, 1)})
        await eventually(lambda: all(caller.judged for caller in callers.values()))
        for key, caller in callers.items():
            is_bad = key == KEY
            [judged] = caller.judged
            assert judged.error is (ErrorCode.COORDINATOR_NOT_AVAILABLE if is_bad else ErrorCode.NONE)
            assert shards.rows(key).offsets == ({} if is_bad else {orders(0): 7})
        await shards.settled(KEY)
        assert remembered(shards) == {}
