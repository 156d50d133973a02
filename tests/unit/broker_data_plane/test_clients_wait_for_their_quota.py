"""Who is over its quota is told how long to wait, and is heard no earlier (KIP-219); followers never wait."""

from pathlib import Path

from kafkaserver.quotas import LONGEST_WAIT_MS
from muster.kafkawire.api_table import ApiKey
from muster.messages.link.quotas import QuotaRow
from tests.unit.broker_data_plane.planes import broker, client, fetch, fetched, follower, produce, produced
from tests.unit.kafkaserver.served import until

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
LONG_MS = LONGEST_WAIT_MS


async def test_a_producer_is_told_and_its_next_request_is_not_heard(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as bob:
        one.obey(1)
        one.quotas.know([QuotaRow(None, "ann", producer_byte_rate=1)])
        ann.send(PRODUCE, 9, produce(b"a" * 1_000))
        ann.send(PRODUCE, 9, produce(b"b"))
        body = await ann.hear()
        assert (produced(body), body.throttle_time.total_seconds() * 1_000) == ((0, 0), LONG_MS)
        assert one.client.server.mute_count == 1
        assert await ann.is_quiet()
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        assert hosted.log.end_offset == 1, "the second was not heard"
        one.quotas.know([])
        assert produced(await bob.ask(PRODUCE, 9, produce(b"c"))) == (0, 1)


async def test_who_has_waited_is_heard_again_in_order(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        one.quotas.know([QuotaRow(None, "ann", producer_byte_rate=10_000)])
        ann.send(PRODUCE, 9, produce(b"a" * 10_000))
        ann.send(PRODUCE, 9, produce(b"b"))
        ann.send(PRODUCE, 9, produce(b"c"))
        assert [produced(await ann.hear()) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
        throttled = one.quotas.throttled["producer_byte_rate"]
        assert throttled.answers >= 1
        await until(lambda: one.client.server.mute_count == 0)


async def test_a_consumer_gets_a_seconds_worth_and_waits_for_the_rest(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        for _ in range(10):
            await ann.ask(PRODUCE, 9, produce(b"a" * 100))
        everything = len(fetched(await ann.ask(FETCH, 12, fetch(0))).records)
        one.quotas.know([QuotaRow(None, "ann", consumer_byte_rate=everything // 2)])
        body = await ann.ask(FETCH, 12, fetch(0, min_bytes=everything, max_wait_ms=60_000))
        assert 0 < len(fetched(body).records) <= everything // 2
        assert body.throttle_time.total_seconds() == 0
        body = await ann.ask(FETCH, 12, fetch(5))
        assert fetched(body).records and body.throttle_time.total_seconds() > 0


async def test_who_owes_already_is_given_nothing_until_then(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as again:
        one.obey(1)
        await ann.ask(PRODUCE, 9, produce(b"a" * 1_000))
        one.quotas.know([QuotaRow(None, "ann", consumer_byte_rate=1)])
        body = await ann.ask(FETCH, 12, fetch(0))
        assert fetched(body).records and body.throttle_time.total_seconds() * 1_000 == LONG_MS
        # On another connection, as a client that hung up would come back.
        body = await again.ask(FETCH, 12, fetch(0))
        assert not body.responses, "as Kafka answers: no topic, and for how long"
        assert body.throttle_time.total_seconds() * 1_000 == LONG_MS
        assert one.client.server.mute_count == 2


async def test_a_parked_fetch_that_is_over_the_quota_mutes_when_it_is_answered(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as bob:
        one.obey(1)
        one.quotas.know([QuotaRow(None, "ann", consumer_byte_rate=1)])
        ann.send(FETCH, 12, fetch(0, max_wait_ms=60_000))
        assert await ann.is_quiet()
        assert one.client.server.mute_count == 0
        await bob.ask(PRODUCE, 9, produce(b"a" * 1_000))
        assert (await ann.hear()).throttle_time.total_seconds() * 1_000 == LONG_MS
        assert one.client.server.mute_count == 1
        ann.send(FETCH, 12, fetch(0))
        assert await ann.is_quiet()


async def test_followers_have_no_quota(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=(1, 2))
        await ann.ask(PRODUCE, 9, produce(b"a" * 1_000, acks=1))
        one.quotas.know([QuotaRow("", None, consumer_byte_rate=1), QuotaRow(None, "", consumer_byte_rate=1)])
        for _ in range(2):
            asked = fetch(0, version=16, replica=(2, 1), leader_epoch=1, last_epoch=1)
            assert fetched(await two.ask(FETCH, 16, asked)).records
        assert one.replication.server.mute_count == 0
