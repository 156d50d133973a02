"""Produce: acks=0 is silent, 1 is the leader's word, all waits for every member that counts."""

import asyncio
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from broker import handlers_produce
from muster.kafkawire.api_table import ApiKey
from muster.kafkawire.records import read_records
from tests.unit.broker_data_plane.planes import broker, client, fetch, fetched, follower, produce, produced
from tests.unit.kafkaserver.served import until
from tests.unit.kafkawire.made_batches import made_batch

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
IN_STEP = (1, 2)


async def test_with_one_replica_all_is_answered_at_once(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"a", b"b"))) == (0, 0)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"c", acks=1))) == (0, 2)


async def test_all_waits_for_the_follower_and_requests_pipeline(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        for value in (b"a", b"b", b"c"):
            ann.send(PRODUCE, 9, produce(value))
        assert await ann.is_quiet()
        await two.ask(FETCH, 16, fetch(2, version=16, replica=(2, 1), leader_epoch=1, last_epoch=1))
        assert produced(await ann.hear()) == (0, 0)
        assert produced(await ann.hear()) == (0, 1)
        assert await ann.is_quiet()
        await two.ask(FETCH, 16, fetch(3, version=16, replica=(2, 1), leader_epoch=1, last_epoch=1))
        assert produced(await ann.hear()) == (0, 2)


async def test_requests_that_share_a_buffer_keep_their_own_records(tmp_path: Path) -> None:
    """KAFKA-15653, CVE-2026-35554: what is stored at an offset is what its own request said."""
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as ben:
        one.obey(1)
        said = {ann: [b"ann %d" % size * size for size in range(1, 30)]}
        said[ben] = [value.replace(b"ann", b"ben") for value in said[ann]]
        for together in zip(*said.values(), strict=True):
            for peer, value in zip(said, together, strict=True):
                peer.send(PRODUCE, 9, produce(value))
        stored: dict[int, bytes] = {}
        for peer, values in said.items():
            for value in values:
                error_code, offset = produced(await peer.hear())
                assert error_code == 0
                stored[offset] = value
        answer = fetched(await ann.ask(FETCH, 12, fetch(0)))
        found = {record.offset: record.value for record in read_records(answer.records or b"", 0)}
        assert found == stored


async def test_a_partition_that_is_named_twice_is_answered_when_both_are_committed(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        twice = produce(b"a")
        ann.send(PRODUCE, 9, replace(twice, topic_data=twice.topic_data * 2))
        await two.ask(FETCH, 16, fetch(1, version=16, replica=(2, 1), leader_epoch=1, last_epoch=1))
        assert await ann.is_quiet()
        await two.ask(FETCH, 16, fetch(2, version=16, replica=(2, 1), leader_epoch=1, last_epoch=1))
        answers = (await ann.hear()).responses[0].partition_responses
        assert [(int(each.error_code), each.base_offset) for each in answers] == [(0, 0), (0, 1)]


async def test_what_is_not_committed_in_time_is_told_so_and_stays_in_the_log(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=IN_STEP)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"a", timeout_ms=20))) == (7, -1)
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        assert (hosted.log.end_offset, hosted.commits_awaited()) == (1, 0)


async def test_an_answer_that_we_fail_to_word_takes_nobody_elses_time_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = asyncio.Event()

    def fails(*_: object) -> bytes:
        monkeypatch.undo()
        failed.set()
        raise RuntimeError("a mistake of ours")

    async with broker(tmp_path) as one, client(one.client_port) as ben:
        one.obey(1, replicas=IN_STEP)
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        monkeypatch.setattr(handlers_produce, "produce_answer", fails)
        async with asyncio.timeout(10):
            async with client(one.client_port) as ann:
                ann.send(PRODUCE, 9, produce(b"a", timeout_ms=20))
                await failed.wait()
                ben.send(PRODUCE, 9, produce(b"b", timeout_ms=300))
                await until(lambda: hosted.log.end_offset == 2)
            assert produced(await ben.hear()) == (7, -1)


async def test_a_leader_that_is_deposed_tells_whoever_waits(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=IN_STEP)
        ann.send(PRODUCE, 9, produce(b"a"))
        assert await ann.is_quiet()
        one.obey(2, leader=2, epoch=2, replicas=IN_STEP)
        assert produced(await ann.hear()) == (6, -1)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"b"))) == (6, -1)


async def test_too_few_in_sync_are_told_before_anything_is_stored(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=(1, 2), isr=(1,), configs={"min.insync.replicas": "2"})
        assert produced(await ann.ask(PRODUCE, 9, produce(b"a"))) == (19, -1)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"a", acks=1))) == (0, 0)


async def test_a_retried_batch_gets_its_old_offset_and_a_gap_is_refused(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        for sequence in range(3):
            await ann.ask(PRODUCE, 9, produce(b"x", producer=(7, 0, sequence)))
        assert produced(await ann.ask(PRODUCE, 9, produce(b"x", producer=(7, 0, 1)))) == (0, 1)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"x", producer=(7, 0, 9)))) == (45, -1)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"x", producer=(7, 0, 3)))) == (0, 3)


async def test_a_retried_batch_that_is_not_committed_yet_waits_like_the_first(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        ann.send(PRODUCE, 9, produce(b"x", producer=(7, 0, 0)))
        ann.send(PRODUCE, 9, produce(b"x", producer=(7, 0, 0)))
        assert await ann.is_quiet()
        await two.ask(FETCH, 16, fetch(1, version=16, replica=(2, 1), leader_epoch=1, last_epoch=1))
        assert [produced(await ann.hear()), produced(await ann.hear())] == [(0, 0), (0, 0)]


@pytest.mark.parametrize(
    ("topic", "acks", "code"), [("nowhere", 1, 3), ("orders", 2, 21), ("orders", -2, 21)]
)
async def test_what_cannot_be_done_is_refused_by_number(
    tmp_path: Path, topic: str, acks: int, code: int
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"a", topic=topic, acks=acks))) == (code, -1)


async def test_what_is_to_be_part_of_a_transaction_is_refused_and_not_stored(tmp_path: Path) -> None:
    """Before its batch is looked at, which may state nothing of it."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        asked = replace(produce(b"a", producer=(7, 0, 0)), transactional_id="ann")
        assert produced(await ann.ask(PRODUCE, 9, asked)) == (42, -1)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"b"))) == (0, 0)


async def test_a_batch_with_a_wrong_checksum_is_refused_and_the_connection_stays(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        batch = made_batch([b"abc"])
        batch[-1] ^= 1
        assert produced(await ann.ask(PRODUCE, 9, produce(batch=bytes(batch)))) == (2, -1)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"abc"))) == (0, 0)


@pytest.mark.parametrize(("version", "code"), [(3, 76), (6, 76), (7, 0), (12, 0)])
async def test_zstd_is_for_whoever_speaks_of_it(tmp_path: Path, version: int, code: int) -> None:
    """KIP-110: below version 7 of Produce UNSUPPORTED_COMPRESSION_TYPE, as Kafka says."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        zstd, gzip = bytes(made_batch([b"a"], compression=4)), bytes(made_batch([b"a"], compression=1))
        assert produced(await ann.ask(PRODUCE, version, produce(batch=zstd, version=version)))[0] == code
        assert produced(await ann.ask(PRODUCE, version, produce(batch=gzip, version=version)))[0] == 0


async def test_an_id_below_every_producers_is_nobodys(tmp_path: Path) -> None:
    """As with Kafka: there is no sequence that it could leave, and nothing of it is remembered."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        for offset, sequence in enumerate((0, 9, -1, 0)):
            batch = produce(b"x", producer=(-2, 0, sequence))
            assert produced(await ann.ask(PRODUCE, 9, batch)) == (0, offset)
        hosted = one.plane.named("orders", 0)
        assert hosted is not None and not hosted.log.producers.states()


async def test_acks_0_has_no_answer_and_its_error_is_a_hang_up(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        ann.send(PRODUCE, 9, produce(b"a", acks=0), expects_reply=False)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"b", acks=1))) == (0, 1)
        ann.send(PRODUCE, 9, produce(b"c", acks=0, topic="nowhere"), expects_reply=False)
        with pytest.raises(EOFError):
            await ann.hear()


async def test_a_full_disk_is_told_and_records_go_on_when_there_is_room(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(PRODUCE, 9, produce(b"a"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
        try:
            assert produced(await ann.ask(PRODUCE, 9, produce(b"b" * 1_000))) == (56, -1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert produced(await ann.ask(PRODUCE, 9, produce(b"b" * 1_000))) == (0, 1)
        answer = fetched(await ann.ask(FETCH, 12, fetch(0)))
        assert answer.high_watermark == 2
