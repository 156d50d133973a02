"""A follower that cannot store what it is sent makes its leader look: who holds a bad batch gives way."""

from pathlib import Path
from typing import Any

import pytest
import structlog

from broker.core.replica import Role
from broker.hosted import HostedPartition
from muster.kafkawire import batches
from muster.kafkawire.api_table import ApiKey
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_data_plane.planes import (
    ORDERS,
    Broker,
    Client,
    broker,
    client,
    fetch,
    fetched,
    follower,
    produce,
    produced,
)
from tests.unit.broker_log.logs import append, opened

CHECKSUM, LEADER_EPOCH = 17, 12
LAST_BYTE = -1
ALL = (1, 2, 3)


def _holding_two(one: Broker, isr: tuple[int, ...]) -> HostedPartition:
    one.obey(1, replicas=ALL, isr=isr)
    hosted = one.plane.hosted(ORDERS, 0)
    assert hosted is not None
    for _ in range(2):
        append(hosted.log, b"a", b"b")
    hosted.log.flush()
    return hosted


def _flip(hosted: HostedPartition, at: int) -> None:
    """One bit of the second batch, which is durable."""
    (path,) = hosted.log.folder.glob("*.log")
    data = bytearray(path.read_bytes())
    second = batches.read_header(data, 0).size_bytes
    data[at if at < 0 else second + at] ^= 1
    path.write_bytes(data)


async def _ask_again(two: Client, offset: int) -> tuple[Any, Any]:
    """The answers to a fetch and to the same one after a rest, as a follower words it."""
    asked: dict[str, Any] = {"version": 16, "replica": (2, 1), "leader_epoch": 1, "last_epoch": 1}
    first = await two.ask(ApiKey.FETCH, 16, fetch(offset, session=(0, 0), **asked))
    rests = fetch(offset, session=(first.session_id, 1), **asked, is_forgotten=True)
    await two.ask(ApiKey.FETCH, 16, rests)
    again = await two.ask(ApiKey.FETCH, 16, fetch(offset, session=(first.session_id, 2), **asked))
    return fetched(first), fetched(again)


@pytest.mark.parametrize("at", [CHECKSUM, LAST_BYTE, LEADER_EPOCH + 3])
async def test_an_in_sync_replica_is_to_lead_in_its_place(tmp_path: Path, at: int) -> None:
    async with broker(tmp_path) as one, follower(one) as two:
        hosted = _holding_two(one, isr=(1, 3))
        _flip(hosted, at)
        sent, refused = await _ask_again(two, 2)
        assert sent.records and int(refused.error_code) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert hosted.replica.role is Role.FAILED
        assert one.plane.troubles.unusable == (hosted.key,)


async def test_the_last_in_sync_replica_goes_on_with_what_it_has(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, follower(one) as two, client(one.client_port) as ann:
        hosted = _holding_two(one, isr=(1,))
        _flip(hosted, LAST_BYTE)
        with structlog.testing.capture_logs() as said:
            for _ in range(2):
                sent, again = await _ask_again(two, 2)
                assert sent.records == again.records
        assert [line["event"] for line in said].count("damage_at_the_last_replica") == 1
        assert fetched(await ann.ask(ApiKey.FETCH, 12, fetch(0))).records
        assert produced(await ann.ask(ApiKey.PRODUCE, 9, produce(b"c", acks=1))) == (ErrorCode.NONE, 4)


async def test_a_follower_that_has_trouble_of_its_own_deposes_nobody(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, follower(one) as two:
        hosted = _holding_two(one, isr=(1, 3))
        for offset in (0, 2):
            sent, again = await _ask_again(two, offset)
            assert sent.records == again.records
        assert hosted.replica.leads


@pytest.mark.parametrize("isr", [(1,), (1, 3)])
async def test_a_batch_that_lies_in_anothers_place_is_served_to_nobody(
    tmp_path: Path, isr: tuple[int, ...]
) -> None:
    """In a segment that was flushed, and so not checked when it was opened."""
    async with broker(tmp_path) as one:
        one.obey(1, replicas=ALL, isr=isr)
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        while len(paths := sorted(hosted.log.folder.glob("*.log"))) < 2:
            append(hosted.log, b"a" * 1_000)
    data = bytearray(paths[0].read_bytes())
    data[batches.read_header(data, 0).size_bytes + 7] ^= 1
    paths[0].write_bytes(data)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(2, replicas=ALL, isr=isr)
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        hosted.replica.high_watermark = hosted.log.end_offset
        assert len(bytes(fetched(await ann.ask(ApiKey.FETCH, 12, fetch(0))).records)) < 2_000
        wrong = fetched(await ann.ask(ApiKey.FETCH, 12, fetch(1)))
        assert (int(wrong.error_code), wrong.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
        behind = fetched(await ann.ask(ApiKey.FETCH, 12, fetch(int(paths[1].stem))))
        if len(isr) > 1:
            assert hosted.replica.role is Role.FAILED
            assert one.plane.troubles.unusable == (hosted.key,)
        else:
            assert behind.records, "what else it holds can be read"
            assert hosted.damage.startswith(paths[0].name)


def test_the_next_start_believes_nothing_of_a_log_that_gave_way(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(20):
        append(log, b"a" * 100)
    log.flush()
    first = min(log.folder.glob("*.log"))
    data = bytearray(first.read_bytes())
    data[LAST_BYTE] ^= 1
    first.write_bytes(data)
    last_of_first = opened(tmp_path, recovery_point=20)
    assert last_of_first.end_offset == 20
    log.fail("the batch is bad")
    assert 0 < opened(tmp_path, recovery_point=20).end_offset < 20
