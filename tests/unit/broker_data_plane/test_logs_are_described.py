"""DescribeLogDirs, AlterReplicaLogDirs and DescribeProducers: what lies here, for whoever may know."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker import handlers_logs
from kafkaserver.callers import KafkaCaller
from muster.kafkawire.api_table import ApiKey, build, part, request_class
from muster.kernel.error_codes import ErrorCode
from muster.kernel.scopes import EVERYTHING, Scope
from tests.unit.broker_data_plane.planes import Broker, Client, broker, client, follower, produce
from tests.unit.broker_data_plane.test_followers_fetch_by_session import follow

DIRS, PRODUCERS, MOVE = ApiKey.DESCRIBE_LOG_DIRS, ApiKey.DESCRIBE_PRODUCERS, ApiKey.ALTER_REPLICA_LOG_DIRS


def dirs(version: int, topic: str | None = None) -> Any:
    shape = request_class(DIRS, version)
    topics = None if topic is None else (part(shape, "DescribableLogDirTopic")(topic=topic, partitions=(0,)),)
    return shape(topics=topics)


def act_as(one: Broker, caller: KafkaCaller) -> None:
    for connection in one.client.server._connections:
        connection.identity = caller


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_a_log_is_described_with_its_size_and_the_room_that_is_left(
    tmp_path: Path, version: int
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(ApiKey.PRODUCE, 9, produce(b"a"))
        body = await ann.ask(DIRS, version, dirs(version))
        (told,) = body.results
        assert (int(told.error_code), told.log_dir) == (0, str(tmp_path / "1"))
        (log,) = told.topics[0].partitions
        (hosted,) = one.plane.partitions()
        assert (told.topics[0].name, log.partition_index, log.partition_size) == (
            "orders",
            0,
            hosted.log.size_bytes,
        )
        assert (log.offset_lag, log.is_future_key) == (0, False)
        if version >= 4:
            room = os.statvfs(tmp_path)
            assert told.total_bytes == room.f_blocks * room.f_frsize
            assert 0 < told.usable_bytes <= told.total_bytes
        assert (await ann.ask(DIRS, version, dirs(version, "clicks"))).results[0].topics == ()


async def test_a_log_that_holds_more_than_is_committed_lags_behind_nobody(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=(1, 2))
        await ann.ask(ApiKey.PRODUCE, 9, produce(b"a", acks=1))
        (hosted,) = one.plane.partitions()
        assert (hosted.high_watermark, hosted.log.end_offset) == (0, 1)
        (told,) = (await ann.ask(DIRS, 4, dirs(4))).results
        assert told.topics[0].partitions[0].offset_lag == 0


async def test_a_topic_that_is_named_twice_is_described_with_all_its_partitions(tmp_path: Path) -> None:
    topic = part(request_class(DIRS, 4), "DescribableLogDirTopic")
    asked = tuple(topic(topic="orders", partitions=numbers) for numbers in ((0,), (7,)))
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        (told,) = (await ann.ask(DIRS, 4, request_class(DIRS, 4)(topics=asked))).results
        (orders,) = told.topics
        assert [log.partition_index for log in orders.partitions] == [0]


async def test_who_may_see_no_cluster_is_told_of_no_directory(tmp_path: Path) -> None:
    some = KafkaCaller("ann", "ann", "", frozenset({"consume"}), EVERYTHING, EVERYTHING)
    viewer = KafkaCaller("ben", "ben", "", frozenset({"view"}), Scope.of(("clicks",)), EVERYTHING)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(ApiKey.PRODUCE, 9, produce(b"a"))
        act_as(one, some)
        body = await ann.ask(DIRS, 4, dirs(4))
        assert (int(body.error_code), body.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ())
        assert (await ann.ask(DIRS, 2, dirs(2))).results == ()
        act_as(one, viewer)
        assert (await ann.ask(DIRS, 4, dirs(4))).results[0].topics == ()


@pytest.mark.parametrize(
    ("topics", "groups"), [(("orders",), ()), ((), ("team-*",)), (("orders",), ("team-*",))]
)
async def test_whom_names_bound_is_told_of_its_logs_and_not_how_full_the_disk_is(
    tmp_path: Path, topics: tuple[str, ...], groups: tuple[str, ...]
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(ApiKey.PRODUCE, 9, produce(b"a"))
        act_as(one, KafkaCaller("ben", "ben", "", frozenset({"view"}), Scope.of(topics), Scope.of(groups)))
        (told,) = (await ann.ask(DIRS, 4, dirs(4))).results
        assert (told.total_bytes, told.usable_bytes) == (-1, -1)
        assert [topic.name for topic in told.topics] == ["orders"]


def wanted_in(version: int, path: str, *names: str) -> Any:
    shape = request_class(MOVE, version)
    topics = tuple(part(shape, "AlterReplicaLogDirTopic")(name=name, partitions=(0,)) for name in names)
    return shape(dirs=(part(shape, "AlterReplicaLogDir")(path=path, topics=topics),))


async def outcomes(ann: Client, version: int, path: str, *names: str) -> list[int]:
    body = await ann.ask(MOVE, version, wanted_in(version, path, *names))
    assert [one.topic_name for one in body.results] == list(dict.fromkeys(names))
    return [int(told.error_code) for one in body.results for told in one.partitions]


async def test_of_a_log_that_is_wanted_twice_the_last_directory_counts(tmp_path: Path) -> None:
    here = str(tmp_path / "1")
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert await outcomes(ann, 2, here, "orders", "orders") == [ErrorCode.NONE]
        first, second = wanted_in(2, here, "orders"), wanted_in(2, "/elsewhere", "orders")
        body = await ann.ask(MOVE, 2, replace(first, dirs=(*first.dirs, *second.dirs)))
        (told,) = body.results[0].partitions
        assert int(told.error_code) == ErrorCode.LOG_DIR_NOT_FOUND


@pytest.mark.parametrize("version", [1, 2])
async def test_a_log_is_wanted_where_it_lies_or_where_none_can(tmp_path: Path, version: int) -> None:
    # What kafka-reassign-partitions.sh prints for a rollback names the directory of each replica.
    here = str(tmp_path / "1")
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert await outcomes(ann, version, here, "orders", "clicks") == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await outcomes(ann, version, "/elsewhere", "orders") == [ErrorCode.LOG_DIR_NOT_FOUND]
        one.obey(2, leader=2, epoch=2, replicas=(2, 3))
        assert await outcomes(ann, version, here, "orders") == [ErrorCode.REPLICA_NOT_AVAILABLE]
        act_as(one, KafkaCaller("ann", "ann", "", frozenset({"operate"}), Scope.of(("clicks",)), EVERYTHING))
        assert await outcomes(ann, version, here, "orders") == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def producers_of(topic: str = "orders") -> Any:
    shape = request_class(PRODUCERS, 0)
    return build(shape, topics=(part(shape, "TopicRequest")(name=topic, partition_indexes=(0,)),))


async def test_a_leader_tells_of_its_producers(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=(1, 2))
        await two.ask(ApiKey.FETCH, 16, follow(0))
        await ann.ask(ApiKey.PRODUCE, 9, produce(b"a", b"b", acks=1, producer=(7, 2, 0)))
        (told,) = (await ann.ask(PRODUCERS, 0, producers_of())).topics[0].partitions
        (producer,) = told.active_producers
        assert int(told.error_code) == 0
        assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 1)
        assert producer.last_timestamp > 0
        assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
        unknown = (await ann.ask(PRODUCERS, 0, producers_of("clicks"))).topics[0].partitions[0]
        assert int(unknown.error_code) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        nameless = (await ann.ask(PRODUCERS, 0, producers_of("or/ders"))).topics[0].partitions[0]
        assert int(nameless.error_code) == ErrorCode.INVALID_TOPIC_EXCEPTION
        act_as(one, KafkaCaller("ann", "ann", "", frozenset({"produce"}), EVERYTHING, EVERYTHING))
        refused = (await ann.ask(PRODUCERS, 0, producers_of())).topics[0].partitions[0]
        assert int(refused.error_code) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_follower_tells_of_the_producers_in_its_own_log(tmp_path: Path) -> None:
    # Who looks for what hangs at a broker (kafka-transactions.sh find-hanging) asks for all of its replicas.
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(ApiKey.PRODUCE, 9, produce(b"a", producer=(7, 2, 0)))
        one.obey(2, leader=2, epoch=2, replicas=(1, 2))
        (told,) = (await ann.ask(PRODUCERS, 0, producers_of())).topics[0].partitions
        assert int(told.error_code) == 0
        assert [(by.producer_id, by.last_sequence) for by in told.active_producers] == [(7, 0)]


async def test_nothing_is_told_of_a_log_that_failed(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(ApiKey.PRODUCE, 9, produce(b"a", producer=(7, 2, 0)))
        (hosted,) = one.plane.partitions()
        hosted.log.fail("the disk is gone")
        (told,) = (await ann.ask(PRODUCERS, 0, producers_of())).topics[0].partitions
        assert (int(told.error_code), told.active_producers) == (ErrorCode.KAFKA_STORAGE_ERROR, ())
        assert (await ann.ask(DIRS, 4, dirs(4))).results[0].topics == ()


async def test_one_answer_tells_of_so_many_producers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of twenty kilobytes can name a partition with thousands of them five thousand times."""
    monkeypatch.setattr(handlers_logs, "MOST_PRODUCERS_TOLD", 5)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        for producer_id in range(2):
            await ann.ask(ApiKey.PRODUCE, 9, produce(b"a", producer=(producer_id, 0, 0)))
        shape = request_class(PRODUCERS, 0)
        named = part(shape, "TopicRequest")(name="orders", partition_indexes=(0, 0, 0, 0))
        (topic,) = (await ann.ask(PRODUCERS, 0, shape(topics=(named,)))).topics
        told = [(each.error_code, len(each.active_producers)) for each in topic.partitions]
        much = (ErrorCode.POLICY_VIOLATION, 0)
        assert told == [(ErrorCode.NONE, 2), (ErrorCode.NONE, 2), much, much]
        assert "ask for this one in another" in (topic.partitions[-1].error_message or "")
