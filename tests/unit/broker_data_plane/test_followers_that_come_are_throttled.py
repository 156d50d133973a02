"""A leader sends a replica that comes no faster than its move, or Kafka's configs, allow; others at once."""

from pathlib import Path
from typing import Any

import pytest

from muster.kafkawire.api_table import ApiKey
from muster.messages.link.rows import PartitionRow
from tests.unit.broker_data_plane.planes import ORDERS, Broker, broker, client, follower, produce
from tests.unit.broker_data_plane.test_followers_fetch_by_session import follow

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
LISTED = {"leader.replication.throttled.replicas": "0:1,3:2"}


def move(one: Broker, version: int, throttle: int, isr: tuple[int, ...] = (1,)) -> None:
    """Partition 0 gets broker 2 beside broker 1."""
    one.plane.obey(PartitionRow(ORDERS, 0, (2, 1), 1, 1, isr, version, (2,), (), throttle))


def size(answer: Any) -> int:
    return sum(len(one.records or b"") for topic in answer.responses for one in topic.partitions)


async def produced(one: Broker, count: int = 20) -> None:
    async with client(one.client_port) as ann:
        for _ in range(count):
            await ann.ask(PRODUCE, 9, produce(b"x" * 1_000, acks=1))


async def test_a_replica_that_comes_is_sent_what_finds_room_and_a_member_of_the_isr_all(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as one, follower(one) as two:
        one.obey(1, replicas=(1, 2), isr=(1,))
        move(one, 2, throttle=4_000)
        await produced(one)
        begun = await two.ask(FETCH, 16, follow(0))
        assert size(begun) == 0, "nothing has come in yet"
        one.now_ms += 500
        sent = [
            size(await two.ask(FETCH, 16, follow(at, session=(begun.session_id, at + 1)))) for at in range(3)
        ]
        assert 1_000 <= sum(sent) <= 3_100 and sent[2] == 0
        move(one, 3, throttle=4_000, isr=(1, 2))
        rest = await two.ask(FETCH, 16, follow(2, session=(begun.session_id, 4)))
        assert size(rest) > 5_000, "in sync: acknowledgements wait for it"


async def test_another_rate_of_a_move_under_way_holds_at_once_and_ends_with_it(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, follower(one) as two:
        one.obey(1, replicas=(1, 2), isr=(1,))
        move(one, 2, throttle=1)
        await produced(one)
        begun = await two.ask(FETCH, 16, follow(0))
        one.now_ms += 400
        move(one, 3, throttle=0)
        rest = await two.ask(FETCH, 16, follow(0, session=(begun.session_id, 1)))
        assert (size(begun), size(rest) > 5_000) == (0, True)


async def test_a_parked_fetch_is_answered_when_there_is_room(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, follower(one) as two:
        one.obey(1, replicas=(1, 2), isr=(1,))
        move(one, 2, throttle=1_000_000)
        await produced(one)
        two.send(FETCH, 16, follow(0, max_wait_ms=60_000))
        assert await two.is_quiet()
        one.now_ms += 500
        assert size(await two.hear()) > 5_000


@pytest.mark.parametrize(("configs", "is_throttled"), [(LISTED, True), ({}, False)])
async def test_kafkas_own_configs_are_obeyed_where_they_list_the_leader(
    tmp_path: Path, configs: dict[str, str], is_throttled: bool
) -> None:
    async with broker(tmp_path) as one, follower(one) as two:
        one.plane.know_levels({"leader.replication.throttled.rate": "2000"}, {}, {})
        one.obey(1, replicas=(1, 2), isr=(1,), configs=configs)
        await produced(one)
        begun = await two.ask(FETCH, 16, follow(0))
        assert (size(begun) == 0) is is_throttled
        if is_throttled:
            one.now_ms += 1_000
            some = await two.ask(FETCH, 16, follow(0, session=(begun.session_id, 1)))
            assert 1_000 <= size(some) <= 2_500
