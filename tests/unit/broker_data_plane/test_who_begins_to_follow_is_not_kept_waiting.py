"""A follower's fetch waits for a moment only while it has to ask for what this broker leads newly."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.core.replica_log import PartitionKey
from broker.patience import AWAITED_MS, Patience
from broker.replication import Replication, early_rest_ms
from broker.settings import from_environment
from muster.kafkawire.api_table import ApiKey
from muster.kernel.instants import Instant
from muster.messages.link.rows import REPLICATION_LISTENER, BrokerRow, PartitionRow
from tests.unit.broker_data_plane.planes import (
    KEY,
    ORDERS,
    Broker,
    Client,
    broker,
    client,
    fetch,
    follower,
    produce,
    produced,
)
from tests.unit.kafkaserver.interrupted import interrupted

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
LONG_MS = 60_000
"""Longer than anybody here waits for an answer."""


def follow(number: int, session: tuple[int, int], *, epoch: int = 1, offset: int = 0) -> Any:
    last_epoch = epoch if offset else -1
    request = fetch(
        offset,
        version=16,
        replica=(2, 1),
        leader_epoch=epoch,
        last_epoch=last_epoch,
        session=session,
        max_wait_ms=LONG_MS,
    )
    (topic,) = request.topics
    (asked,) = topic.partitions
    return replace(request, topics=(replace(topic, partitions=(replace(asked, partition=number),)),))


def idle(session: tuple[int, int]) -> Any:
    return fetch(0, version=16, replica=(2, 1), session=session, is_empty=True, max_wait_ms=LONG_MS)


def row(leader: int, epoch: int, replicas: tuple[int, ...] = (1, 2), number: int = 1) -> PartitionRow:
    return PartitionRow(ORDERS, number, replicas, leader, epoch, replicas, epoch)


@asynccontextmanager
async def parked(folder: Path) -> AsyncIterator[tuple[Broker, Client, int]]:
    """Broker 1 leads partition 0 and follows in partition 1; a fetch of broker 2 waits, of this session."""
    async with broker(folder) as one, follower(one) as two:
        one.obey(1, replicas=(1, 2), partitions=2)
        one.plane.obey(row(leader=2, epoch=2))
        two.send(FETCH, 16, replace(follow(0, (0, 0)), max_wait=follow(0, (0, 0)).max_wait * 0))
        session = (await two.hear()).session_id
        two.send(FETCH, 16, idle((session, 1)))
        assert await two.is_quiet()
        yield one, two, session


async def test_a_fetch_under_way_ends_when_its_follower_has_more_to_ask_for(tmp_path: Path) -> None:
    async with parked(tmp_path) as (one, two, _):
        one.plane.obey(row(leader=1, epoch=3))
        assert (await two.hear()).responses == ()


@pytest.mark.parametrize(
    "other",
    [row(leader=2, epoch=3), row(leader=1, epoch=3, replicas=(1, 3)), row(leader=-1, epoch=3)],
    ids=["led elsewhere", "followed by another", "led by nobody"],
)
async def test_it_waits_on_where_it_has_not(tmp_path: Path, other: PartitionRow) -> None:
    async with parked(tmp_path) as (one, two, _):
        one.plane.obey(other)
        assert await two.is_quiet()


async def test_nobody_waits_for_a_follower_that_is_dead(tmp_path: Path) -> None:
    async with parked(tmp_path) as (one, two, _):
        one.plane.live = frozenset({1, 3})
        one.plane.obey(row(leader=1, epoch=3))
        assert await two.is_quiet()


async def test_fetches_are_short_until_it_has_asked(tmp_path: Path) -> None:
    async with parked(tmp_path) as (one, two, session):
        one.plane.obey(row(leader=1, epoch=3))
        await two.hear()
        for turn in (2, 3):
            assert (await two.ask(FETCH, 16, idle((session, turn)))).responses == ()
        await two.ask(FETCH, 16, follow(1, (session, 4), epoch=2))
        await two.ask(FETCH, 16, follow(1, (session, 5), epoch=3))
        two.send(FETCH, 16, idle((session, 6)))
        assert await two.is_quiet()


async def test_nobody_is_awaited_for_longer_than_a_second(tmp_path: Path) -> None:
    async with parked(tmp_path) as (one, two, session):
        one.plane.obey(row(leader=1, epoch=3))
        await two.hear()
        one.now_ms += AWAITED_MS - 1
        assert (await two.ask(FETCH, 16, idle((session, 2)))).responses == ()
        one.now_ms += 1
        two.send(FETCH, 16, idle((session, 3)))
        assert await two.is_quiet()


async def test_a_thousand_changes_at_once_start_one_timer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with parked(tmp_path) as (one, two, _):
        started: list[float] = []
        loop = asyncio.get_running_loop()
        call_at = loop.call_at

        def counted(when: float, *more: Any, **named: Any) -> asyncio.TimerHandle:
            started.append(when)
            return call_at(when, *more, **named)

        monkeypatch.setattr(loop, "call_at", counted)
        for epoch in range(3, 1_003):
            one.plane.obey(row(leader=1, epoch=epoch))
        assert len(started) == 1
        await two.hear()


def test_who_leads_more_partitions_in_the_moment_in_which_a_wait_ends_goes_on_leading() -> None:
    ended: list[str] = []

    async def lead() -> None:
        patience = Patience(lambda: ended.append("the wait"))
        patience.begin(LONG_MS)
        for number in range(3):
            patience.expect(PartitionKey(ORDERS, number), 3, Instant(0))
        await asyncio.sleep(0)

    interrupted(lead())
    assert ended == ["the wait"]


async def test_a_new_leader_that_its_follower_asks_too_early_commits_at_once(tmp_path: Path) -> None:
    """Broker 2 heard first that broker 1 leads: refused, it comes again, whatever it waits for meanwhile."""
    settings = from_environment(
        {
            "MUSTER_BROKER_ID": "2",
            "MUSTER_BROKER_DATA": str(tmp_path),
            "MUSTER_NODES": "ws://127.0.0.1:9301",
            "MUSTER_BROKER_SECRET": "s3cret",
            "MUSTER_REPLICA_FETCH_BACKOFF_MS": str(LONG_MS),
            "MUSTER_REPLICA_FETCH_WAIT_MAX_MS": str(LONG_MS),
        }
    )
    async with broker(tmp_path, 1) as one, broker(tmp_path, 2) as two, client(one.client_port) as ann:
        for each in (one, two):
            each.obey(1, replicas=(1, 2), partitions=2)
        one.plane.obey(row(leader=2, epoch=2))
        two.plane.obey(row(leader=1, epoch=3))
        replication = Replication(two.plane, settings)
        replication.know_self(1, KEY)
        endpoint = f"127.0.0.1:{one.replication_port}"
        replication.know_brokers([BrokerRow(1, 1, "a", {REPLICATION_LISTENER: endpoint})])
        try:
            for number in range(2):
                replication.look_at(PartitionKey(ORDERS, number))
            fetcher = replication.peers[1]
            async with asyncio.timeout(5):
                while not fetcher._too_early:
                    await asyncio.sleep(0.001)
            one.plane.obey(row(leader=1, epoch=3))
            assert produced(await ann.ask(PRODUCE, 9, produce(b"a", partition=1))) == (0, 0)
            assert not fetcher._too_early
        finally:
            await replication.close()


def test_who_asks_too_early_rests_for_twice_as_long_each_time() -> None:
    assert [early_rest_ms(times, 200) for times in range(6)] == [20, 40, 80, 160, 200, 200]
    assert early_rest_ms(1_000, 10) == 10
