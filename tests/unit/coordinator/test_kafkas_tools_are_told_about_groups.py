"""DescribeGroups and ListGroups tell of both worlds what is proved to be the newest, or say why not."""

from dataclasses import replace

import pytest
from msgspec import structs

from coordinator.describing import DEAD, ListedGroup
from coordinator.service import NotServed
from groups.core.consumer_protocol import assigned_partitions, assignment, subscription
from groups.core.phases import Phase
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from tests.unit.coordinator.shards import Shards, kafka_readers, readers


async def test_a_stable_classic_group_shows_what_its_members_agreed_on() -> None:
    async with Shards([kafka_readers(ann=[0, 2], ben=[1])]) as shards:
        told = await (await shards.serve("kafka-readers")).describe("kafka-readers")
        assert (told.phase, told.protocol_type, told.protocol_name) == ("Stable", "consumer", "range")
        ann, ben = told.members
        assert (ann.member_id, ann.client_id, ann.client_host) == ("ann", "client of ann", "/127.0.0.1")
        assert ann.metadata == subscription(["orders"])
        assert ben.assignment == assignment({"orders": [1]})


@pytest.mark.parametrize("phase", [Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE])
async def test_what_is_being_agreed_on_anew_is_not_shown(phase: Phase) -> None:
    async with Shards([kafka_readers(phase=phase, ann=[0, 2])]) as shards:
        told = await (await shards.serve("kafka-readers")).describe("kafka-readers")
        assert (told.phase, told.protocol_type, told.protocol_name) == (phase.value, "consumer", "")
        assert [(one.metadata, one.assignment) for one in told.members] == [(b"", b"")]


async def test_a_native_group_is_shown_as_consumers_of_kafkas() -> None:
    group = readers(ann=[0, 1], ben=[])
    ann_there = structs.replace(group.members["ann"], client_host="127.0.0.1")
    group = replace(group, members={**group.members, "ann": ann_there})
    async with Shards([group]) as shards:
        told = await (await shards.serve("readers")).describe("readers")
        assert (told.phase, told.protocol_type, told.protocol_name) == ("Stable", "consumer", "sticky")
        ann, ben = told.members
        assert (ann.client_host, ben.client_host) == ("/127.0.0.1", "")
        assert ann.metadata == subscription(["orders"])
        assert assigned_partitions(ann.assignment) == {"orders": [0, 1]}
        assert assigned_partitions(ben.assignment) == {}


async def test_a_group_that_nobody_knows_is_dead() -> None:
    async with Shards() as shards:
        told = await (await shards.serve("nobody")).describe("nobody")
        assert (told.phase, told.error) == (DEAD, ErrorCode.GROUP_ID_NOT_FOUND)


async def test_a_list_names_the_groups_of_the_shard_with_what_they_speak() -> None:
    simple = GroupRows("simple", version=4, protocol="classic", classic=kafka_readers().classic)
    async with Shards([kafka_readers(ann=[0]), simple, GroupRows("empty", version=3)]) as shards:
        told = [one for key in ("kafka-readers", "empty") for one in await (await shards.serve(key)).groups()]
        assert ListedGroup("kafka-readers", "Stable", "consumer") in told
        assert ListedGroup("empty", "Empty", "consumer") in told


async def test_who_does_not_serve_a_group_says_so() -> None:
    async with Shards([kafka_readers(ann=[0])]) as shards:
        service = await shards.serve("kafka-readers")
        await service.give_up(None)
        assert (await service.describe("kafka-readers")).error is ErrorCode.NOT_COORDINATOR
        with pytest.raises(NotServed, match="NOT_COORDINATOR"):
            await service.groups()


async def test_who_lost_the_lease_without_knowing_it_tells_nothing() -> None:
    async with Shards([kafka_readers(ann=[0])]) as shards:
        service = await shards.serve("kafka-readers")
        thief = shards.database.connect("b" * 16, "session")
        name = shards.held[service.shard].name
        assert thief.take(name, 1, "b" * 16)
        assert (await service.describe("kafka-readers")).error is ErrorCode.NOT_COORDINATOR


async def test_while_a_shard_is_loading_its_groups_are_not_told() -> None:
    async with Shards([kafka_readers(ann=[0])]) as shards:
        service = await shards.serve("kafka-readers")
        await service.give_up(None)
        async with shards.loading(service) as accepting:
            told = await service.describe("kafka-readers")
            assert told.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await accepting
        assert (await service.describe("kafka-readers")).error is ErrorCode.NONE
