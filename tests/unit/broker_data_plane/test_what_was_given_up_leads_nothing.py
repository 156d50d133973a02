"""An older database names a broker as in sync for what it gave up since: it does not lead with nothing."""

from pathlib import Path

import pytest

from broker.core.replica import Role
from broker.core.replica_log import PartitionKey
from broker.log.given_up import WHY
from tests.unit.broker_data_plane.planes import ORDERS, Broker, broker
from tests.unit.broker_log.logs import append

FIRST = PartitionKey(ORDERS, 0)
ALL = (1, 2, 3)


def holding(one: Broker) -> None:
    """It leads orders, with one record."""
    one.obey(1, replicas=ALL)
    hosted = one.plane.hosted(*FIRST)
    assert hosted is not None
    append(hosted.log, b"a")


def gave_up(one: Broker) -> None:
    """It held a record of orders, which was moved away from it."""
    holding(one)
    one.obey(2, leader=2, epoch=2, replicas=(2, 3))
    assert one.plane.hosted(*FIRST) is None
    one.plane.forget_topics(())


def role(one: Broker) -> Role:
    hosted = one.plane.hosted(*FIRST)
    assert hosted is not None
    return hosted.replica.role


@pytest.mark.parametrize("leader", [1, 2])
async def test_it_counts_as_failed_where_an_older_row_has_it_in_sync(tmp_path: Path, leader: int) -> None:
    stated: list[object] = []
    async with broker(tmp_path) as one:
        gave_up(one)
    async with broker(tmp_path) as again:
        again.plane.on_trouble = lambda: stated.append(again.plane.troubles.unusable)
        again.obey(1_000_001, leader=leader, epoch=1_000_001, replicas=ALL)
        assert role(again) is Role.FAILED
        assert again.plane.troubles.reason(FIRST) == WHY
        assert stated == [(FIRST,)], "another is to lead"


async def test_its_next_process_confesses_and_copies(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        gave_up(one)
        one.obey(1_000_001, epoch=1_000_001, replicas=ALL)
        assert role(one) is Role.FAILED
    async with broker(tmp_path) as again:
        assert again.plane.damaged == (FIRST,), "which leaves the in-sync replicas whatever the floor"
        again.plane.confessed()
        again.obey(1_000_002, leader=2, epoch=1_000_002, replicas=ALL, isr=(2, 3))
        assert role(again) is Role.FOLLOWER
        assert again.plane.troubles.unusable == ()
    async with broker(tmp_path) as last:
        assert last.plane.damaged == (), "once"
        last.obey(1_000_003, leader=2, epoch=1_000_002, replicas=ALL)
        assert role(last) is Role.FOLLOWER


async def test_who_is_killed_before_its_hello_is_heard_confesses_again(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        gave_up(one)
        one.obey(1_000_001, epoch=1_000_001, replicas=ALL)
    for _ in range(2):
        async with broker(tmp_path) as again:
            assert again.plane.damaged == (FIRST,)


async def test_who_is_added_again_copies_and_may_lead(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        gave_up(one)
        one.obey(3, leader=2, epoch=2, replicas=ALL, isr=(2, 3))
        assert role(one) is Role.FOLLOWER
        one.obey(4, leader=2, epoch=2, replicas=ALL)
        one.plane.forget_topics(())
    async with broker(tmp_path) as again:
        again.obey(5, leader=1, epoch=3, replicas=ALL)
        assert role(again) is Role.LEADER, "what it had caught up with was empty"


async def test_a_partition_that_was_removed_and_came_again_is_led(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        gave_up(one)
        one.obey(9, epoch=6, replicas=ALL, base_epoch=5)
        assert role(one) is Role.LEADER


async def test_a_log_without_a_record_is_nothing_to_miss(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, replicas=ALL)
        one.obey(2, leader=2, epoch=2, replicas=(2, 3))
        one.obey(1_000_001, epoch=1_000_001, replicas=ALL)
        assert role(one) is Role.LEADER
