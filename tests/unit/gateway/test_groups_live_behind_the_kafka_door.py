"""Members join, sync, beat and leave over Kafka's wire; a door that moves answers and closes nothing."""

import asyncio
import itertools
import threading
from dataclasses import replace
from typing import Any

import pytest

from gateway import session
from gateway.asking import GROUP_ID_LENGTH
from gateway.translation import groups
from groups.core.state import GroupRows
from groups.models import ConsumerGroup
from kafkaserver.callers import ANYBODY, CONSUME, DELETE, DESCRIBE, OPERATE, READ, VIEW
from muster.kafkawire.api_table import SERVED, ApiKey, part, request_class
from muster.kernel.scopes import Scope
from muster.kernel.shards import shard_of
from runtime import clock
from tests.unit.coordinator.shards import eventually
from tests.unit.gateway.doors import KEY, kafka_door
from tests.unit.kafkawire.test_unknown_tags_are_skipped import NO_TAGS, UNKNOWN_TAGS, frame


async def test_everything_that_is_advertised_is_answered() -> None:
    async with kafka_door() as door:
        assert door.listener.answered == SERVED.keys()


async def test_a_member_joins_syncs_beats_and_leaves() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        joined = await ann.joins()
        assert (int(joined.error_code), joined.leader, joined.protocol_name) == (0, joined.member_id, "range")
        assert joined.member_id.startswith("ann-")
        assert [one.member_id for one in joined.members] == [joined.member_id]
        synced = await ann.syncs(joined, **{joined.member_id: b"mine"})
        assert (int(synced.error_code), synced.assignment) == (0, b"mine")
        ann.sends_heartbeat(joined)
        assert int((await ann.hear()).error_code) == 0
        who = part(request_class(ApiKey.LEAVE_GROUP, 5), "MemberIdentity")
        left = await ann.ask(
            ApiKey.LEAVE_GROUP,
            5,
            group_id=KEY,
            members=(who(member_id=joined.member_id, group_instance_id=None, reason="enough"),),
        )
        assert [int(one.error_code) for one in left.members] == [0]
        ann.sends_heartbeat(joined)
        assert int((await ann.hear()).error_code) == 25


async def test_whoever_says_more_than_is_known_is_answered_as_without_it() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        for key in (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.LIST_GROUPS):
            plain, said = (
                bytes(frame(key, SERVED[key].maximum, tags)[1]) for tags in (NO_TAGS, UNKNOWN_TAGS)
            )
            assert await ann.exchange(said) == await ann.exchange(plain)


async def test_the_address_of_a_member_is_told_without_its_port() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined, **{joined.member_id: b"mine"})
        [group] = (
            await ann.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=(KEY,), include_authorized_operations=False)
        ).groups
        assert (group.group_state, group.protocol_type, group.protocol_data) == (
            "Stable",
            "consumer",
            "range",
        )
        [member] = group.members
        assert (member.client_id, member.client_host, member.member_assignment) == (
            "ann",
            "/127.0.0.1",
            b"mine",
        )
        listed = await ann.ask(ApiKey.LIST_GROUPS, 5, states_filter=("stable",), types_filter=())
        assert [(one.group_id, one.group_state) for one in listed.groups] == [(KEY, "Stable")]


async def test_answers_keep_the_order_of_their_requests_though_a_join_is_held_back() -> None:
    async with kafka_door() as door:
        ann, ben = await door.peer(), await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined, **{joined.member_id: b"mine"})
        ben.sends_join()
        known = await ben.hear()
        ben.sends_join(member_id=known.member_id)
        ben.sends_heartbeat(joined)
        ann.sends_heartbeat(joined)
        # Ben's join has opened a rebalance, and waits for Ann's.
        await eventually(lambda: door.shards.rows(KEY).phase.value == "PreparingRebalance")
        await ann.hear()
        ann.sends_join(member_id=joined.member_id)
        again, bens = await ann.hear(), await ben.hear()
        assert again.generation_id == bens.generation_id == joined.generation_id + 1
        # The heartbeat was judged before, and its answer has waited behind the join's.
        assert int((await ben.hear()).error_code) == 0


async def test_who_hangs_up_stays_a_member() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined, **{joined.member_id: b"mine"})
        ann.close()
        again = await door.peer()
        again.sends_heartbeat(joined)
        assert int((await again.hear()).error_code) == 0


async def test_a_shard_that_moves_answers_who_waits_and_closes_nothing() -> None:
    async with kafka_door() as door:
        ann, ben = await door.peer(), await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined, **{joined.member_id: b"mine"})
        ben.sends_join()
        known = await ben.hear()
        ben.sends_join(member_id=known.member_id)
        await eventually(lambda: door.shards.rows(KEY).phase.value == "PreparingRebalance")
        await door.shards.services[shard_of(KEY)].give_up("ws://two")
        refused = await ben.hear()
        assert (int(refused.error_code), refused.member_id) == (16, known.member_id)
        ann.sends_heartbeat(joined)
        assert int((await ann.hear()).error_code) == 16
        ben.sends_join(member_id=known.member_id)
        assert int((await ben.hear()).error_code) == 16


@pytest.mark.parametrize("group_id", ["", "a\0b", "x" * 250])
async def test_a_name_that_no_group_can_have_is_refused(group_id: str) -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        ann.sends_join(group_id=group_id)
        assert int((await ann.hear()).error_code) == 24
        described = await ann.ask(
            ApiKey.DESCRIBE_GROUPS, 6, groups=(group_id,), include_authorized_operations=False
        )
        assert [int(one.error_code) for one in described.groups] == [24]


def test_whatever_names_a_group_fits_into_its_row() -> None:
    """A longer one was let in, and each turn of its group failed: its clients asked again for ever."""
    assert ConsumerGroup._meta.get_field("name").max_length == GROUP_ID_LENGTH


async def test_nothing_is_committed_for_a_group_that_does_not_exist() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        group = part(request_class(ApiKey.OFFSET_FETCH, 8), "OffsetFetchRequestGroup")
        topic = part(request_class(ApiKey.OFFSET_FETCH, 8), "OffsetFetchRequestTopics")
        asked = group(group_id=KEY, topics=(topic(name="orders", partition_indexes=(0, 1)),))
        [told] = (await ann.ask(ApiKey.OFFSET_FETCH, 8, groups=(asked,))).groups
        assert [(one.committed_offset, int(one.error_code)) for one in told.topics[0].partitions] == [
            (-1, 0),
            (-1, 0),
        ]


def commit_fields(offset: int, number: int = 0, topic: str = "orders", **fields: Any) -> dict[str, Any]:
    """An OffsetCommit 9 of one partition, by somebody who is no member."""
    place = part(request_class(ApiKey.OFFSET_COMMIT, 9), "OffsetCommitRequestPartition")
    named = part(request_class(ApiKey.OFFSET_COMMIT, 9), "OffsetCommitRequestTopic")
    one = place(
        partition_index=number, committed_offset=offset, committed_leader_epoch=4, committed_metadata="note"
    )
    usual = {"group_id": KEY, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    return {**usual, "topics": (named(name=topic, partitions=(one,)),), **fields}


async def test_a_member_commits_and_anybody_reads_what_it_said_beside() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined, **{joined.member_id: b"mine"})
        who = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
        body = await ann.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(5, **who))
        assert [int(one.error_code) for one in body.topics[0].partitions] == [0]
        group = part(request_class(ApiKey.OFFSET_FETCH, 8), "OffsetFetchRequestGroup")
        [told] = (await ann.ask(ApiKey.OFFSET_FETCH, 8, groups=(group(group_id=KEY, topics=None),))).groups
        [one] = told.topics[0].partitions
        assert (one.committed_offset, one.committed_leader_epoch, one.metadata) == (5, 4, "note")


async def test_a_stale_epoch_beside_a_question_keeps_no_offset_from_who_asks() -> None:
    """Told that nothing is committed, a consumer would begin where it likes (platformatic/kafka 267)."""
    async with kafka_door() as door:
        ann = await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined, **{joined.member_id: b"mine"})
        who = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
        await ann.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(5, **who))
        group = part(request_class(ApiKey.OFFSET_FETCH, 9), "OffsetFetchRequestGroup")
        for epoch in (joined.generation_id - 1, joined.generation_id + 1, -1):
            asked = group(group_id=KEY, member_id=joined.member_id, member_epoch=epoch, topics=None)
            [told] = (await ann.ask(ApiKey.OFFSET_FETCH, 9, groups=(asked,))).groups
            assert (int(told.error_code), told.topics[0].partitions[0].committed_offset) == (0, 5)


async def test_a_refused_entry_holds_up_none_beside_it_and_none_behind_it() -> None:  # KAFKA-16371
    async with kafka_door() as door:
        ann = await door.peer()
        place = part(request_class(ApiKey.OFFSET_COMMIT, 9), "OffsetCommitRequestPartition")
        topic = part(request_class(ApiKey.OFFSET_COMMIT, 9), "OffsetCommitRequestTopic")
        texts = {0: "x" * 4_097, 1: "note"}
        places = tuple(
            place(
                partition_index=number, committed_offset=5, committed_leader_epoch=4, committed_metadata=text
            )
            for number, text in texts.items()
        )
        said = {**commit_fields(5), "topics": (topic(name="orders", partitions=places),)}
        body = await ann.ask(ApiKey.OFFSET_COMMIT, 9, **said)
        errors = {one.partition_index: int(one.error_code) for one in body.topics[0].partitions}
        assert errors == {0: 12, 1: 0}
        again = await ann.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(6))
        assert [int(one.error_code) for one in again.topics[0].partitions] == [0]
        offsets = door.shards.rows(KEY).offsets
        assert {one.number: offset for one, offset in offsets.items()} == {0: 6, 1: 5}


async def test_who_is_no_member_commits_for_a_group_that_nobody_knew() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        body = await ann.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(5))
        assert [int(one.error_code) for one in body.topics[0].partitions] == [0]
        assert door.shards.rows(KEY).phase.value == "Empty"


async def test_a_native_member_that_was_away_begins_where_a_tool_reset_the_offsets() -> None:
    native = GroupRows(KEY, generation=4, version=9)
    async with kafka_door(stored=[native]) as door:
        tool = await door.peer()
        for offset in (3, 5):
            body = await tool.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(offset))
            assert [int(one.error_code) for one in body.topics[0].partitions] == [0]
        rows = door.shards.rows(KEY)
        # Two are between it and its next partitions: once is enough, however many offsets follow.
        assert (rows.protocol, rows.generation, list(rows.offsets.values())) == ("native", 5, [5])


async def test_what_cannot_be_committed_is_answered_without_asking_the_group() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        for fields in ({"number": 2}, {"topic": "nowhere"}):
            body = await ann.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(5, **fields, member_id="nobody"))
            door.listener.tick(clock.now())
            assert [int(one.error_code) for one in body.topics[0].partitions] == [3]


async def test_a_commit_to_the_wrong_node_is_refused_partition_by_partition() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        await door.shards.services[shard_of(KEY)].give_up("ws://two")
        body = await ann.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(5))
        assert [int(one.error_code) for one in body.topics[0].partitions] == [16]


async def test_a_commit_waits_while_its_shard_is_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka tries three times within a moment, and then its application hears of the error."""
    async with kafka_door() as door:
        ann = await door.peer()
        await ann.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(5))
        service, store = door.shards.services[shard_of(KEY)], door.shards.store
        await service.give_up(None)
        may_load, load_shard = threading.Event(), store.load_shard

        def slowly(connection: Any, shard: int) -> Any:
            assert may_load.wait(10)
            return load_shard(connection, shard)

        monkeypatch.setattr(store, "load_shard", slowly)
        accepting = asyncio.create_task(service.accept(door.shards.held[service.shard]))
        ann.send(ApiKey.OFFSET_COMMIT, 9, **commit_fields(6))
        await eventually(lambda: service._orders._lines)
        assert not service.accepting
        may_load.set()
        body = await ann.hear()
        assert [int(one.error_code) for one in body.topics[0].partitions] == [0]
        await accepting
        assert set(door.shards.rows(KEY).offsets.values()) == {6}


async def test_while_a_shard_is_loading_nobody_is_scared_and_no_list_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A list without the groups of that shard would say that there are none (conformance 6 to 8, 144)."""
    async with kafka_door() as door:
        ann = await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined)
        service, store = door.shards.services[shard_of(KEY)], door.shards.store
        await service.give_up(None)
        may_load, load_shard = threading.Event(), store.load_shard

        def slowly(connection: Any, shard: int) -> Any:
            assert may_load.wait(10)
            return load_shard(connection, shard)

        monkeypatch.setattr(store, "load_shard", slowly)
        accepting = asyncio.create_task(service.accept(door.shards.held[service.shard]))
        await eventually(lambda: service.serving)
        listed = await ann.ask(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=())
        assert (int(listed.error_code), listed.groups) == (14, ())
        asked = {"include_authorized_operations": False, "groups": (KEY,)}
        described = await ann.ask(ApiKey.DESCRIBE_GROUPS, 5, **asked)
        assert int(described.groups[0].error_code) == 14
        fetched = await ann.ask(ApiKey.OFFSET_FETCH, 7, group_id=KEY, topics=None, require_stable=False)
        assert int(fetched.error_code) == 14
        deleted = await ann.ask(ApiKey.DELETE_GROUPS, 2, groups_names=(KEY,))
        assert int(deleted.results[0].error_code) == 14
        assert int((await ann.ask(ApiKey.OFFSET_DELETE, 0, group_id=KEY, topics=())).error_code) == 14
        ann.sends_join(member_id=joined.member_id)
        assert int((await ann.hear()).error_code) == 14
        assert int((await ann.ask(ApiKey.LEAVE_GROUP, 5, group_id=KEY, members=())).error_code) == 14
        ann.sends_heartbeat(joined)
        assert int((await ann.hear()).error_code) == 0
        assert int((await ann.syncs(joined)).error_code) == 27
        may_load.set()
        await accepting
        listed = await ann.ask(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=())
        assert [(one.group_id, one.group_state) for one in listed.groups] == [(KEY, "Stable")]


async def test_a_group_without_members_is_deleted_with_its_offsets() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        await ann.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(5))
        deleted = await ann.ask(ApiKey.DELETE_GROUPS, 2, groups_names=(KEY, KEY, ""))
        assert [(one.group_id, int(one.error_code)) for one in deleted.results] == [(KEY, 0), ("", 24)]
        again = await ann.ask(ApiKey.DELETE_GROUPS, 2, groups_names=(KEY,))
        assert [int(one.error_code) for one in again.results] == [69]


async def test_a_group_with_members_is_not_deleted() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined, **{joined.member_id: b"mine"})
        deleted = await ann.ask(ApiKey.DELETE_GROUPS, 2, groups_names=(KEY,))
        assert [int(one.error_code) for one in deleted.results] == [68]


async def test_offsets_are_deleted_by_name_and_what_nobody_knows_is_refused_for_itself() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        await ann.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(5))
        shape = request_class(ApiKey.OFFSET_DELETE, 0)
        place, named = part(shape, "OffsetDeleteRequestPartition"), part(shape, "OffsetDeleteRequestTopic")
        numbers = tuple(place(partition_index=number) for number in (0, 1, 2))
        topics = (named(name="orders", partitions=numbers), named(name="nowhere", partitions=numbers[:1]))
        body = await ann.ask(ApiKey.OFFSET_DELETE, 0, group_id=KEY, topics=topics)
        assert int(body.error_code) == 0
        assert [[int(one.error_code) for one in topic.partitions] for topic in body.topics] == [
            [0, 0, 3],
            [3],
        ]
        assert dict(door.shards.rows(KEY).offsets) == {}
        unknown = await ann.ask(ApiKey.OFFSET_DELETE, 0, group_id="", topics=topics)
        assert int(unknown.error_code) == 24


async def test_a_connection_may_speak_of_many_groups_and_holds_on_to_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "SEATS_MAX", 3)
    async with kafka_door() as door:
        ann = await door.peer()
        callers = door.shards.premises.callers
        for number in range(20):
            await ann.ask(ApiKey.LEAVE_GROUP, 1, group_id=f"group-{number}", member_id="nobody")
        assert sum(callers.any_of(shard) for shard in range(64)) <= 3
        ann.close()
        await eventually(lambda: not any(callers.any_of(shard) for shard in range(64)))


async def test_an_answer_that_cannot_be_worded_ends_its_own_connection_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that is too long for the strings of version 5 gets past the door, as by a mistake of ours."""
    monkeypatch.setattr(groups, "INSTANCE_LENGTH", 40_000)
    async with kafka_door() as door:
        ann, eve = await door.peer(), await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined, **{joined.member_id: b"mine"})
        eve.sends_join(version=5, group_instance_id="i" * 32_767)
        await eventually(lambda: door.shards.rows(KEY).phase.value == "PreparingRebalance")
        # Of those whom one turn answers, Eve is the first.
        ann.sends_join(member_id=joined.member_id)
        with pytest.raises(EOFError):
            await eve.hear()
        again = await ann.hear()
        assert (int(again.error_code), len(again.members)) == (0, 2)
        assert door.listener.server.connection_count == 1


async def test_offsets_of_a_topic_that_the_token_does_not_name_stay_and_are_not_told_of() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        await ann.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(5))
        [connection] = door.listener.server._connections
        operator = replace(
            ANYBODY, name="op", operations=frozenset({OPERATE}), topics=Scope.of(("payments",))
        )
        assert connection.session is not None
        connection.identity = operator
        connection.session.admitted(operator)
        shape = request_class(ApiKey.OFFSET_DELETE, 0)
        place, named = part(shape, "OffsetDeleteRequestPartition"), part(shape, "OffsetDeleteRequestTopic")
        topics = tuple(
            named(name=name, partitions=(place(partition_index=0),))
            for name in ("orders", "nowhere", "payments")
        )
        body = await ann.ask(ApiKey.OFFSET_DELETE, 0, group_id=KEY, topics=topics)
        errors = {topic.name: int(topic.partitions[0].error_code) for topic in body.topics}
        assert errors == {"orders": 29, "nowhere": 29, "payments": 3}
        assert len(door.shards.rows(KEY).offsets) == 1


async def test_who_may_look_at_a_group_and_a_topic_is_told_of_its_offsets() -> None:
    """OffsetFetch asks for Kafka's DESCRIBE, which who may view has and who may read is not needed for."""
    async with kafka_door() as door:
        ann = await door.peer()
        await ann.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(5))
        [connection] = door.listener.server._connections
        assert connection.session is not None
        shape = request_class(ApiKey.OFFSET_FETCH, 7)
        topics = (part(shape, "OffsetFetchRequestTopic")(name="orders", partition_indexes=(0,)),)
        answers = []
        for names in ("orders",), ("payments",):
            viewer = replace(ANYBODY, name="v", operations=frozenset({VIEW}), topics=Scope.of(names))
            connection.identity = viewer
            connection.session.admitted(viewer)
            body = await ann.ask(ApiKey.OFFSET_FETCH, 7, group_id=KEY, topics=topics, require_stable=False)
            [told] = body.topics[0].partitions
            answers.append((int(told.error_code), told.committed_offset))
        assert answers == [(0, 5), (29, -1)]


@pytest.mark.parametrize(
    ("operations", "told"),
    [((CONSUME,), {READ, DESCRIBE}), ((VIEW,), {DESCRIBE}), ((VIEW, OPERATE), {DELETE, DESCRIBE})],
)
async def test_who_asks_what_it_may_do_with_a_group_is_told(
    operations: tuple[str, ...], told: set[int]
) -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        await ann.ask(ApiKey.OFFSET_COMMIT, 9, **commit_fields(5))
        [connection] = door.listener.server._connections
        assert connection.session is not None
        connection.identity = replace(ANYBODY, name="v", operations=frozenset(operations))
        connection.session.admitted(connection.identity)
        for version, asked in itertools.product((3, 4, 5, 6), (False, True)):
            body = await ann.ask(
                ApiKey.DESCRIBE_GROUPS, version, groups=(KEY,), include_authorized_operations=asked
            )
            expected = sum(1 << one for one in told) if asked else -(2**31)
            assert body.groups[0].authorized_operations == expected
