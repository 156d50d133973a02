"""What producers have stored below a cut is read beside the loop; other partitions of the peer go on."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

from broker.core.replica_log import PartitionKey
from broker.hosted import HostedPartition
from broker.log import cutting
from broker.log.cutting import Replay
from broker.log.stated_offsets import StatedOffsets
from broker.replication import Replication
from tests.unit.broker_data_plane.planes import KEY, ORDERS, Broker, broker
from tests.unit.broker_data_plane.test_a_follower_goes_on_after_a_mistake import _leader_at, _settings
from tests.unit.broker_log.logs import append

LONG, SHORT = PartitionKey(ORDERS, 0), PartitionKey(ORDERS, 1)


class HeldReplays:
    """Each is read as soon as the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, read_at_once: int = 3) -> None:
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.read_over: list[int] = []
        """How many records each reads over."""
        read = Replay.read

        def held(replay: Replay, now_ms: int) -> None:
            self.read_over.append(replay.records)
            self.begun.set()
            assert self.may_go_on.wait(20)
            read(replay, now_ms)

        monkeypatch.setattr(cutting, "READ_AT_ONCE", read_at_once)
        monkeypatch.setattr(Replay, "read", held)

    async def are_begun(self) -> None:
        async with asyncio.timeout(20):
            while not self.begun.is_set():
                await asyncio.sleep(0.001)


def _of(at: Broker, key: PartitionKey) -> HostedPartition:
    hosted = at.plane.hosted(*key)
    assert hosted is not None
    return hosted


async def _until_equal(one: Broker, two: Broker, key: PartitionKey) -> None:
    async with asyncio.timeout(20):
        while _of(two, key).log.epochs.entries != _of(one, key).log.epochs.entries or (
            _of(two, key).log.end_offset != _of(one, key).log.end_offset
        ):
            await asyncio.sleep(0.001)


@asynccontextmanager
async def _parted(
    tmp_path: Path,
    parts: tuple[PartitionKey, ...] = (LONG,),
    below: Mapping[PartitionKey, int] = MappingProxyType({}),
    lost: int = 0,
) -> AsyncIterator[tuple[Broker, Broker, Replication]]:
    """Broker 2 holds records, as a rule of partition 0, that broker 1 lacks, which leads since.

    They part at 6, or where `below` says; so many above count as committed, and an election `lost` them.
    """
    async with broker(tmp_path, 1) as one, broker(tmp_path, 2) as two:
        for each in (one, two):
            each.obey(1, leader=2, replicas=(1, 2), partitions=2)
            for key in parts:
                parted_at = below.get(key, 6)
                for number in range(parted_at if each is one else parted_at + 3):
                    append(_of(each, key).log, b"old", producer=(7, 0, number))
                _of(each, key).replica.high_watermark = parted_at + (lost if each is two else 0)
        for each in (one, two):
            each.obey(2, epoch=2, replicas=(1, 2), partitions=2)
        append(_of(one, LONG).log, b"new", epoch=2, producer=(7, 0, below.get(LONG, 6)))
        append(_of(one, SHORT).log, b"new", epoch=2)
        replication = Replication(two.plane, _settings(tmp_path))
        replication.know_self(1, KEY)
        try:
            replication.know_brokers(_leader_at(str(one.replication_port)))
            for key in (LONG, SHORT):
                replication.look_at(key)
            yield one, two, replication
        finally:
            await replication.close()


async def test_others_are_followed_while_much_is_read_and_then_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldReplays(monkeypatch)
    async with _parted(tmp_path) as (one, two, replication):
        await held.are_begun()
        await _until_equal(one, two, SHORT)
        append(_of(one, SHORT).log, b"more", epoch=2)
        await _until_equal(one, two, SHORT)
        # A row that says nothing new of the leader does not begin it anew.
        replication.look_at(LONG)
        assert _of(two, LONG).log.end_offset == 9
        held.may_go_on.set()
        await _until_equal(one, two, LONG)
        assert len(held.read_over) == 1
        kept = [known.batches for _, known in _of(two, LONG).log.producers.states()]
        assert kept == [known.batches for _, known in _of(one, LONG).log.producers.states()]


async def test_who_leads_meanwhile_cuts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldReplays(monkeypatch)
    async with _parted(tmp_path) as (one, two, replication):
        await held.are_begun()
        two.obey(3, leader=2, epoch=3, replicas=(1, 2), partitions=2)
        for key in (LONG, SHORT):
            replication.look_at(key)
        append(_of(two, LONG).log, b"mine", epoch=3, producer=(7, 0, 9))
        held.may_go_on.set()
        await replication.close()
        assert _of(two, LONG).log.end_offset == 10 and _of(one, LONG).log.end_offset == 7


async def test_a_connection_that_breaks_meanwhile_begins_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldReplays(monkeypatch)
    async with _parted(tmp_path) as (one, two, replication):
        await held.are_begun()
        connection = replication.peers[1]._connection
        assert connection is not None
        connection.end(EOFError("cut off"))
        append(_of(one, SHORT).log, b"more", epoch=2)
        await _until_equal(one, two, SHORT)
        held.may_go_on.set()
        await _until_equal(one, two, LONG)
        assert len(held.read_over) == 1


async def test_many_short_cuts_of_one_answer_are_together_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them has as much to read as may be read at once."""
    held = HeldReplays(monkeypatch, read_at_once=11)
    async with _parted(tmp_path, parts=(LONG, SHORT)) as (one, two, _):
        await held.are_begun()
        held.may_go_on.set()
        for key in (LONG, SHORT):
            await _until_equal(one, two, key)
        assert len(held.read_over) == 2


async def test_a_mistake_beside_the_loop_leaves_nobody_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(*_: object) -> None:
        raise RuntimeError("no thread can be started")

    monkeypatch.setattr(cutting, "READ_AT_ONCE", 3)
    monkeypatch.setattr(Replay, "read", mistaken)
    async with _parted(tmp_path) as (one, two, _):
        await _until_equal(one, two, LONG)
        kept = [known.batches for _, known in _of(two, LONG).log.producers.states()]
        assert kept == [known.batches for _, known in _of(one, LONG).log.producers.states()]


async def test_who_has_the_least_to_read_is_cut_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldReplays(monkeypatch)
    async with _parted(tmp_path, parts=(LONG, SHORT), below={LONG: 8}) as (one, two, _):
        held.may_go_on.set()
        for key in (LONG, SHORT):
            await _until_equal(one, two, key)
        assert held.read_over == [6, 8]


async def test_what_a_checkpoint_states_again_of_logs_that_are_held_is_lowered_for_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time the file names all logs, and is synced, on the loop."""
    held, lowered = HeldReplays(monkeypatch), 0
    save_durably = StatedOffsets.save_durably

    def counted(file: StatedOffsets, offsets: Mapping[PartitionKey, int]) -> None:
        nonlocal lowered
        lowered += 1
        save_durably(file, offsets)

    monkeypatch.setattr(StatedOffsets, "save_durably", counted)
    async with _parted(tmp_path, parts=(LONG, SHORT), lost=3) as (one, two, _):
        await held.are_begun()
        await two.plane.upkeep.checkpoint()
        before = lowered
        held.may_go_on.set()
        for key in (LONG, SHORT):
            await _until_equal(one, two, key)
        assert lowered == before + 1
