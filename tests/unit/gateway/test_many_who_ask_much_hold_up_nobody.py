"""What tools ask of large groups is looked through a few milliseconds at a time, however many ask at once."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.describing import ListedGroup
from coordinator.service import ShardService
from gateway import questions
from gateway.session import KafkaSession
from gateway.translation import listing, offsets
from groups.core.state import GroupRows
from muster.kafkawire.api_table import ApiKey
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition
from tests.unit.coordinator.shards import kafka_readers
from tests.unit.gateway.doors import KEY, ORDERS, kafka_door

PARTITIONS = 5_000
PIECES = PARTITIONS // offsets.PIECE_PARTITIONS
ASKING, EACH = 5, 20
MEMBERS, GROUPS = 5_000, 10_000
LARGE = GroupRows(KEY, version=1, offsets={Partition("orders", ORDERS, n): n for n in range(PARTITIONS)})


class Passes:
    """What is done in each pass of the loop."""

    def __init__(self) -> None:
        self.number = 0
        self.done: Counter[int] = Counter()
        self.begun: set[int] = set()
        self.most_begun = 0

    async def count(self) -> None:
        while True:
            self.number += 1
            await asyncio.sleep(0)

    def pieces(self, worded: Iterator[bytes]) -> Iterator[bytes]:
        """Those of one answer."""
        self.begun.add(id(worded))
        self.most_begun = max(self.most_begun, len(self.begun))
        for one in worded:
            self.done[self.number] += 1
            yield one
        self.begun.discard(id(worded))


async def test_all_that_is_committed_is_told_one_slice_a_pass_and_one_answer_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred answers of 50,000 partitions held a node's loop for so long that another took its leases."""
    passes, worded_offsets = Passes(), offsets.worded_offsets

    def counted(version: int, asked: offsets.AskedOffsets, told: Any) -> Any:
        return passes.pieces(iter(worded_offsets(version, asked, told)))

    monkeypatch.setattr(offsets, "worded_offsets", counted)
    monkeypatch.setattr(questions, "SLICE_S", 0.0)
    async with kafka_door(stored=[LARGE]) as door:
        peers = [await door.peer() for _ in range(ASKING)]
        counting = asyncio.create_task(passes.count())
        for peer in peers:
            for _ in range(EACH):
                peer.send(ApiKey.OFFSET_FETCH, 7, group_id=KEY, topics=None, require_stable=False)
        for peer in peers:
            for _ in range(EACH):
                [topic] = (await peer.hear()).topics
                assert len(topic.partitions) == PARTITIONS
        counting.cancel()
    assert passes.done.total() >= ASKING * EACH * PIECES
    slice_pieces = 1 + questions.SLICE_BYTES // (offsets.PIECE_PARTITIONS * 18)
    # One answer may end in the pass in which the next one begins.
    assert max(passes.done.values()) <= 2 * (slice_pieces + 1)
    assert passes.most_begun == 1


async def test_what_is_asked_of_a_small_group_does_not_wait_for_large_ones() -> None:
    async with kafka_door(stored=[LARGE]) as door:
        ann, ben = await door.peer(), await door.peer()
        async with door.listener._questions._large:
            ann.send(ApiKey.OFFSET_FETCH, 7, group_id=KEY, topics=None, require_stable=False)
            told = await ben.ask(ApiKey.OFFSET_FETCH, 7, group_id=KEY, topics=(), require_stable=False)
            assert told.topics == ()


async def test_a_large_group_waits_for_no_list_of_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who lists waits for the lanes of all shards."""
    waits, goes_on = asyncio.Event(), asyncio.Event()

    async def groups(_shard: ShardService) -> tuple[()]:
        waits.set()
        await goes_on.wait()
        return ()

    monkeypatch.setattr(ShardService, "groups", groups)
    async with kafka_door(stored=[LARGE]) as door:
        ann, ben = await door.peer(), await door.peer()
        ann.send(ApiKey.LIST_GROUPS, 4, states_filter=())
        await waits.wait()
        told = await ben.ask(ApiKey.OFFSET_FETCH, 7, group_id=KEY, topics=None, require_stable=False)
        assert len(told.topics[0].partitions) == PARTITIONS
        goes_on.set()
        assert (await ann.hear()).groups == ()


async def test_descriptions_are_worded_one_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    passes, described_group = Passes(), listing.described_group

    def counted(*told: Any) -> Iterator[bytes]:
        passes.done[passes.number] += 1
        return described_group(*told)

    monkeypatch.setattr(listing, "described_group", counted)
    monkeypatch.setattr(questions, "SLICE_S", 0.0)
    async with kafka_door() as door:
        peers = [await door.peer() for _ in range(ASKING)]
        counting = asyncio.create_task(passes.count())
        for peer in peers:
            for _ in range(EACH):
                peer.send(ApiKey.DESCRIBE_GROUPS, 5, groups=(KEY,), include_authorized_operations=False)
        for peer in peers:
            for _ in range(EACH):
                [group] = (await peer.hear()).groups
                assert int(group.error_code) == ErrorCode.NONE
        counting.cancel()
    assert passes.done.total() == ASKING * EACH
    assert max(passes.done.values()) <= 2


async def test_members_of_a_large_group_are_told_one_slice_a_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """5,000 of them held the loop for sixty milliseconds, made and worded in one go."""
    passes, described_group = Passes(), listing.described_group
    members: dict[str, Any] = {f"member-{number}": () for number in range(MEMBERS)}

    def counted(*told: Any) -> Iterator[bytes]:
        return passes.pieces(described_group(*told))

    monkeypatch.setattr(listing, "described_group", counted)
    monkeypatch.setattr(questions, "SLICE_S", 0.0)
    async with kafka_door(stored=[kafka_readers(KEY, **members)]) as door:
        ann = await door.peer()
        counting = asyncio.create_task(passes.count())
        told = await ann.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=(KEY,), include_authorized_operations=False)
        counting.cancel()
    assert [one.member_id for one in told.groups[0].members] == list(members)
    assert passes.done.total() > MEMBERS
    assert max(passes.done.values()) < MEMBERS // 10


async def test_ten_thousand_groups_are_listed_one_slice_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """They held the loop for eighty milliseconds."""
    passes, listed_groups = Passes(), listing.listed_groups

    async def groups(shard: ShardService) -> list[ListedGroup]:
        return [ListedGroup(f"group-{number}", "Stable", "consumer") for number in range(GROUPS)]

    def counted(*told: Any) -> Iterator[bytes]:
        return passes.pieces(listed_groups(*told))

    monkeypatch.setattr(ShardService, "groups", groups)
    monkeypatch.setattr(listing, "listed_groups", counted)
    monkeypatch.setattr(questions, "SLICE_S", 0.0)
    async with kafka_door() as door:
        ann = await door.peer()
        counting = asyncio.create_task(passes.count())
        told = await ann.ask(ApiKey.LIST_GROUPS, 4, states_filter=())
        counting.cancel()
    assert len(told.groups) == passes.done.total() == GROUPS
    assert max(passes.done.values()) < GROUPS // 5


@pytest.mark.parametrize("why", ["few have the state", "none may be viewed"])
async def test_groups_that_are_not_told_are_passed_over_one_slice_a_pass(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """A hundred thousand of them held the loop for 124 milliseconds."""
    passes = Passes()

    def looked_at() -> Iterator[ListedGroup]:
        for number in range(GROUPS):
            passes.done[passes.number] += 1
            yield ListedGroup(f"group-{number}", "Stable", "consumer")

    async def groups(shard: ShardService) -> Iterator[ListedGroup]:
        return looked_at()

    monkeypatch.setattr(ShardService, "groups", groups)
    monkeypatch.setattr(questions, "SLICE_S", 0.0)
    if why == "none may be viewed":
        monkeypatch.setattr(KafkaSession, "may", lambda *_: False)
    states = ("Empty",) if why == "few have the state" else ()
    async with kafka_door() as door:
        ann = await door.peer()
        counting = asyncio.create_task(passes.count())
        told = await ann.ask(ApiKey.LIST_GROUPS, 4, states_filter=states)
        counting.cancel()
    assert told.groups == ()
    assert passes.done.total() == GROUPS
    assert max(passes.done.values()) < GROUPS // 5
