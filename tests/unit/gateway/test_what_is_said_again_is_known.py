"""Of a request that repeats an earlier one but for a few numbers only these are read; it means the same."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from gateway.habits import REMEMBERED_BYTES, CommitHabit
from gateway.translation.cluster import KnownTopic
from kafkaserver.callers import ANYBODY
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import ApiKey, RequestHeader, build, part, request_class
from muster.kernel.scopes import Scope
from muster.kernel.shards import shard_of
from tests.unit.coordinator.shards import eventually
from tests.unit.gateway.doors import KEY, ORDERS, Door, Peer, kafka_door

ACCEPTED, UNKNOWN, NOT_COORDINATOR, STALE, UNKNOWN_MEMBER, REBALANCE, MAY_NOT = (
    0,
    3,
    16,
    22,
    25,
    27,
    29,
)


def sends_commit(peer: Peer, *offsets: int, version: int = 9, metadata: str = "", **who: Any) -> None:
    """Commit for the first partitions of `orders`."""
    shape = request_class(ApiKey.OFFSET_COMMIT, version)
    place, named = part(shape, "OffsetCommitRequestPartition"), part(shape, "OffsetCommitRequestTopic")
    partitions = tuple(
        build(
            place,
            partition_index=number,
            committed_offset=offset,
            committed_leader_epoch=4,
            committed_metadata=metadata,
        )
        for number, offset in enumerate(offsets)
    )
    usual = {"group_id": KEY, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    topics = (named(name="orders", partitions=partitions),)
    peer.send(ApiKey.OFFSET_COMMIT, version, topics=topics, **(usual | who))


def errors(answer: Any) -> list[int]:
    """What each partition hears."""
    return [int(one.error_code) for topic in answer.topics for one in topic.partitions]


async def commits(peer: Peer, *offsets: int, **said: Any) -> list[int]:
    """The same, and what each hears."""
    sends_commit(peer, *offsets, **said)
    return errors(await peer.hear())


def count_what_is_read(door: Door) -> list[int]:
    """The keys of the requests that are not known from their bytes, from now on."""
    read: list[int] = []
    handle = door.listener.server.handler

    def noted(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        read.append(header.api_key)
        handle(header, frame, reply)

    door.listener.server.handler = noted
    return read


async def beats(peer: Peer, joined: Any) -> int:
    """What a heartbeat hears."""
    peer.sends_heartbeat(joined)
    return int((await peer.hear()).error_code)


def committed(door: Door) -> dict[tuple[UUID, int], int]:
    rows = door.shards.rows(KEY)
    return {(one.topic_id, one.number): offset for one, offset in rows.offsets.items()}


def habit(door: Door) -> CommitHabit | None:
    """What is remembered of anybody's commits."""
    sessions: list[Any] = [connection.session for connection in door.listener.server._connections]
    return next((session.commit for session in sessions if session.commit is not None), None)


async def test_it_is_known_from_the_third_time_on_and_means_the_same() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        assert await commits(ann, 1, 2, metadata="a note") == [ACCEPTED, ACCEPTED]
        assert habit(door) is None
        assert await commits(ann, 3, 4, metadata="a note") == [ACCEPTED, ACCEPTED]
        known, read = habit(door), count_what_is_read(door)
        for offset in (5, 6):
            assert await commits(ann, offset, offset + 2, metadata="a note") == [ACCEPTED, ACCEPTED]
        assert known is not None
        assert habit(door) is known
        assert not read
        assert committed(door) == {(ORDERS, 0): 6, (ORDERS, 1): 8}
        assert [tuple(note) for note in door.shards.rows(KEY).offset_notes.values()] == [
            (4, "a note", None)
        ] * 2


@pytest.mark.parametrize("version", range(2, 10))
async def test_it_is_known_in_every_version(version: int) -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        who = {"retention_time": timedelta(milliseconds=-1)} if version <= 4 else {}
        for offset in range(2):
            assert await commits(ann, offset, offset, version=version, **who) == [ACCEPTED, ACCEPTED]
        known = habit(door)
        assert known is not None
        read = count_what_is_read(door)
        assert await commits(ann, 7, 8, version=version, **who) == [ACCEPTED, ACCEPTED]
        assert habit(door) is known
        assert not read
        assert committed(door) == {(ORDERS, 0): 7, (ORDERS, 1): 8}


async def test_what_two_versions_say_alike_is_answered_in_the_words_of_each() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        for version in (3, 3, 3, 2):
            said = {"version": version, "retention_time": timedelta(milliseconds=-1)}
            assert await commits(ann, version, **said) == [ACCEPTED]
        assert committed(door) == {(ORDERS, 0): 2}


async def test_several_that_are_received_together_are_answered_in_their_order() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        for offset in range(2):
            await commits(ann, offset)
        known = habit(door)
        for offset in range(2, 6):
            sends_commit(ann, offset)
        assert [errors(await ann.hear()) for _ in range(4)] == [[ACCEPTED]] * 4
        assert habit(door) is known
        assert committed(door) == {(ORDERS, 0): 5}


async def test_groups_of_one_connection_are_told_apart() -> None:
    another = next(
        name for number in range(100, 999) if shard_of(name := f"{KEY[:-3]}{number}") == shard_of(KEY)
    )
    async with kafka_door() as door:
        ann = await door.peer()
        for offset in range(2):
            await commits(ann, offset)
        for offset in range(7, 10):
            assert await commits(ann, offset, group_id=another) == [ACCEPTED]
            assert await commits(ann, offset - 5) == [ACCEPTED]
            assert committed(door) == {(ORDERS, 0): offset - 5}
            assert set(door.shards.rows(another).offsets.values()) == {offset}


async def test_who_calls_itself_otherwise_is_read() -> None:
    """In a header no less than in what is behind it."""
    async with kafka_door() as door:
        ann = await door.peer()
        for offset in range(2):
            await commits(ann, offset)
        read = count_what_is_read(door)
        await commits(ann, 2)
        assert not read
        ann.calls_itself("ben")
        assert await commits(ann, 3) == [ACCEPTED]
        assert len(read) == 1
        assert committed(door) == {(ORDERS, 0): 3}


async def test_whoever_says_something_else_is_read() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        for offset in range(3):
            await commits(ann, offset, offset)
        assert await commits(ann, 7) == [ACCEPTED]
        assert await commits(ann, 8, 8, metadata="n") == [ACCEPTED, ACCEPTED]
        assert await commits(ann, 9, 9, metadata="m") == [ACCEPTED, ACCEPTED]
        assert {note.metadata for note in door.shards.rows(KEY).offset_notes.values()} == {"m"}
        assert await commits(ann, 9, 9, metadata="m", version=8) == [ACCEPTED, ACCEPTED]
        assert await commits(ann, -1, 10, metadata="m") == [ACCEPTED, ACCEPTED]
        assert committed(door) == {(ORDERS, 1): 10}, "taken back"


async def test_a_refusal_is_told_to_each_partition() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined, **{joined.member_id: b"mine"})
        who = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
        for offset in range(3):
            assert await commits(ann, offset, offset, **who) == [ACCEPTED, ACCEPTED]
        ben = await door.peer()
        ben.sends_join()
        first = await ben.hear()
        ben.sends_join(member_id=first.member_id)
        ann.sends_join(member_id=joined.member_id)
        await ann.hear()
        known = habit(door)
        assert known is not None
        assert await commits(ann, 5, 5, **who) == [STALE, STALE]
        assert habit(door) is known
        assert set(committed(door).values()) == {2}


async def test_a_topic_that_was_deleted_and_made_again_is_another_one() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        for offset in range(3):
            await commits(ann, offset)
        cluster_id, brokers, _, partitions = door.node.learnt
        known = door.listener._cluster._known
        again = UUID(int=9)
        known.learn(cluster_id, brokers, [KnownTopic("orders", again, 1)], partitions)
        assert await commits(ann, 3) == [ACCEPTED]
        assert committed(door) == {(ORDERS, 0): 2, (again, 0): 3}
        door.node.learnt = (cluster_id, brokers, [], partitions)
        known.learn(*door.node.learnt)
        assert await commits(ann, 4) == [UNKNOWN]


async def test_who_may_read_it_no_more_is_refused() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        for offset in range(3):
            await commits(ann, offset)
        [connection] = door.listener.server._connections
        assert connection.session is not None
        connection.identity = replace(ANYBODY, name="ann", topics=Scope.of(("clicks",)))
        connection.session.admitted(connection.identity)
        assert await commits(ann, 3) == [MAY_NOT]
        assert set(committed(door).values()) == {2}


async def test_a_shard_that_went_away_is_noticed() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        for offset in range(3):
            await commits(ann, offset)
        await door.shards.services[shard_of(KEY)].give_up("ws://two")
        assert await commits(ann, 3) == [NOT_COORDINATOR]


async def test_of_long_ones_nothing_is_kept() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        for offset in range(3):
            assert await commits(ann, offset, metadata="x" * REMEMBERED_BYTES) == [ACCEPTED]
        assert habit(door) is None


async def test_a_heartbeat_said_again_is_judged_anew_and_not_read() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined)
        assert await beats(ann, joined) == ACCEPTED
        [connection] = door.listener.server._connections
        session: Any = connection.session
        known = session.known
        assert known is not None
        assert [await beats(ann, joined) for _ in range(3)] == [ACCEPTED] * 3
        assert session.known is known
        assert door.listener.server.counters.requests == 7
        # What is asked of a parked Join's connection is answered behind the Join's answer.
        ben = await door.peer()
        ben.sends_join()
        first = await ben.hear()
        ben.sends_join(member_id=first.member_id)
        await eventually(lambda: len(door.shards.services[shard_of(KEY)]._groups.states[KEY].classic.joins))
        assert await beats(ann, joined) == REBALANCE
        ann.sends_join(member_id=joined.member_id)
        ann.sends_heartbeat(joined)
        assert (await ann.hear()).generation_id == joined.generation_id + 1
        assert int((await ann.hear()).error_code) in (REBALANCE, STALE)
        assert await beats(ann, joined) == STALE
        await door.shards.services[shard_of(KEY)].give_up("ws://two")
        assert await beats(ann, joined) == NOT_COORDINATOR


async def test_joins_and_syncs_of_a_member_are_known_again_in_each_generation() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined)
        sessions: list[Any] = [connection.session for connection in door.listener.server._connections]
        habits = set()
        for generation in range(2, 5):
            # A leader that joins again wants to assign again.
            ann.sends_join(member_id=joined.member_id)
            joined = await ann.hear()
            assert (joined.generation_id, int(joined.error_code)) == (generation, ACCEPTED)
            synced = await ann.syncs(joined)
            assert (int(synced.error_code), synced.assignment) == (ACCEPTED, b"")
            habits |= {id(sessions[0].join), id(sessions[0].sync)}
        assert len(habits) == 2
        # Whoever says something else is read.
        ann.sends_join(member_id=joined.member_id)
        joined = await ann.hear()
        assert (await ann.syncs(joined, **{joined.member_id: b"mine"})).assignment == b"mine"
        ann.sends_join(member_id=joined.member_id, group_instance_id="i")
        assert int((await ann.hear()).error_code) == UNKNOWN_MEMBER
