"""What is under way behind a refused batch is told the same: its client sends all of it again, in order."""

import asyncio
from collections.abc import Container
from pathlib import Path

import pytest

from broker.core.replica_log import EpochEnd
from muster.kafkawire.api_table import ApiKey
from tests.unit.broker_data_plane.planes import Client, broker, client, fetch, follower, produce, produced

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
ALONE: Container[int] = frozenset({1})
BOTH: Container[int] = frozenset({1, 2})
TOO_FEW, TOO_FEW_BEHIND_IT, NOT_LEADER, UNKNOWN_TOPIC = 19, 20, 6, 3


async def answer(to: Client, sequence: int) -> tuple[int, int]:
    return produced(await to.ask(PRODUCE, 9, produce(b"x", producer=(7, 0, sequence))))


async def test_too_few_in_sync_for_a_moment(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=(1, 2), configs={"min.insync.replicas": "2"})
        for sequence in range(5):
            # Between the third and the fourth the other replica is away, and comes back.
            one.plane.live = ALONE if sequence == 2 else BOTH
            ann.send(PRODUCE, 9, produce(b"x", producer=(7, 0, sequence)))
            await two.ask(FETCH, 16, fetch(0, version=16, replica=(2, 1), leader_epoch=1))
        await two.ask(FETCH, 16, fetch(2, version=16, replica=(2, 1), leader_epoch=1, last_epoch=1))
        assert [produced(await ann.hear()) for _ in range(5)] == [(0, 0), (0, 1), *[(TOO_FEW, -1)] * 3]
        for sequence in (2, 3, 4):
            ann.send(PRODUCE, 9, produce(b"x", producer=(7, 0, sequence)))
        await two.ask(FETCH, 16, fetch(5, version=16, replica=(2, 1), leader_epoch=1, last_epoch=1))
        assert [produced(await ann.hear()) for _ in range(3)] == [(0, 2), (0, 3), (0, 4)]


async def test_a_leader_that_has_not_heard_of_its_topic_yet(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        assert await answer(ann, 0) == (UNKNOWN_TOPIC, -1)
        one.obey(1)
        assert await answer(ann, 1) == (UNKNOWN_TOPIC, -1)
        assert [await answer(ann, sequence) for sequence in (0, 1)] == [(0, 0), (0, 1)]


async def test_a_leader_that_was_deposed_and_leads_again(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert await answer(ann, 0) == (0, 0)
        one.obey(2, leader=2, epoch=2, replicas=(1, 2))
        assert await answer(ann, 1) == (NOT_LEADER, -1)
        one.obey(3, epoch=3)
        assert await answer(ann, 2) == (NOT_LEADER, -1)
        assert [await answer(ann, sequence) for sequence in (1, 2)] == [(0, 1), (0, 2)]


@pytest.mark.parametrize("stored_before", [0, 1])
async def test_one_that_was_stored_here_refused_and_cut_off(tmp_path: Path, stored_before: int) -> None:
    """It waited for the other replica, which led for a moment and had not read it."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        for sequence in range(stored_before):
            assert await answer(ann, sequence) == (0, sequence)
        one.obey(2, replicas=(1, 2))
        ann.send(PRODUCE, 9, produce(b"x", producer=(7, 0, stored_before)))
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        while hosted.log.end_offset == stored_before:
            await asyncio.sleep(0)
        one.obey(3, leader=2, epoch=2, replicas=(1, 2))
        assert produced(await ann.hear()) == (NOT_LEADER, -1)
        asked = hosted.replica.next_fetch()
        assert asked is not None
        assert one.plane.heed_diverging(hosted.key, asked, EpochEnd(1, stored_before)) == stored_before
        one.obey(4, epoch=3)
        assert await answer(ann, stored_before + 1) == (NOT_LEADER, -1)
        again = [await answer(ann, sequence) for sequence in (stored_before, stored_before + 1)]
        assert again == [(0, stored_before), (0, stored_before + 1)]


async def test_one_that_was_stored_and_is_there_still_holds_nobody_up(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=(1, 2), configs={"min.insync.replicas": "2"})
        ann.send(PRODUCE, 9, produce(b"x", producer=(7, 0, 0)))
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        while not hosted.commits_awaited():
            await asyncio.sleep(0)
        one.plane.know_live(ALONE)
        assert produced(await ann.hear()) == (TOO_FEW_BEHIND_IT, -1)
        one.obey(2)
        assert [await answer(ann, sequence) for sequence in (1, 0)] == [(0, 1), (0, 0)]


async def test_a_gap_that_nobody_here_made_is_out_of_order(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert [await answer(ann, sequence) for sequence in (0, 2)] == [(0, 0), (45, -1)]


async def test_a_producer_that_nobody_here_knows_sends_again_what_is_not_its_first_batch(
    tmp_path: Path,
) -> None:
    """Java's sends on to a new leader while its first batches are on their way to the one before."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert await answer(ann, 2) == (NOT_LEADER, -1)
        assert [await answer(ann, sequence) for sequence in (0, 1, 2)] == [(0, 0), (0, 1), (0, 2)]


async def test_one_whose_first_batches_were_never_stored_here_goes_on_when_it_insists(tmp_path: Path) -> None:
    """Its topic was deleted and made anew, or what it had written was lost."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert [await answer(ann, 9) for _ in range(2)] == [(NOT_LEADER, -1), (0, 0)]
        assert await answer(ann, 10) == (0, 1)


async def test_one_that_comes_over_another_connection_insists_as_well(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as first, client(one.client_port) as second:
        one.obey(1)
        assert [await answer(to, 9) for to in (first, second)] == [(NOT_LEADER, -1), (0, 0)]


async def test_what_lies_in_a_connection_that_was_given_up_stands_in_a_line_of_its_own(
    tmp_path: Path,
) -> None:
    """It is the batch that was refused, but its producer has not begun to send again (producing seed 352)."""
    async with broker(tmp_path) as one, client(one.client_port) as left, client(one.client_port) as ann:
        one.obey(1)
        assert await answer(left, 0) == (0, 0)
        one.obey(2, leader=2, epoch=2, replicas=(1, 2))
        assert [await answer(ann, sequence) for sequence in (1, 2)] == [(NOT_LEADER, -1)] * 2
        one.obey(3, epoch=3)
        assert await answer(left, 1) == (0, 1)
        assert await answer(ann, 3) == (NOT_LEADER, -1)
        assert [await answer(ann, sequence) for sequence in (1, 2, 3)] == [(0, 1), (0, 2), (0, 3)]


async def test_one_whose_records_were_deleted_goes_on_at_once(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert await answer(ann, 0) == (0, 0)
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        hosted.delete_before(1, 0)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"x", producer=(8, 0, 7)))) == (0, 1)


async def test_one_that_was_forgotten_goes_on_at_once(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert await answer(ann, 0) == (0, 0)
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        hosted.log.producers.forget_silent(10**15, 1)
        assert await answer(ann, 1) == (0, 1)


async def test_a_new_producer_of_a_topic_whose_records_were_deleted(tmp_path: Path) -> None:
    """Of whoever is not known here any sequence is taken, but behind a refused one."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"x"))) == (0, 0)
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        hosted.delete_before(1, 0)
        one.obey(2, leader=2, epoch=2, replicas=(1, 2))
        assert await answer(ann, 0) == (NOT_LEADER, -1)
        one.obey(3, epoch=3)
        assert await answer(ann, 1) == (NOT_LEADER, -1)
        assert [await answer(ann, sequence) for sequence in (0, 1)] == [(0, 1), (0, 2)]
