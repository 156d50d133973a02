"""A consumer that is remembered names what moved, and is told what is new (KIP-227)."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from broker import consumer_session, handlers_fetch
from broker.core.fetch_sessions import SessionBounds
from muster.kafkawire.api_table import ApiKey, build, part, request_class
from tests.unit.broker_data_plane.planes import (
    ORDERS,
    Broker,
    Client,
    broker,
    client,
    follower,
    produce,
)
from tests.unit.broker_data_plane.planes import fetch as followers_fetch
from tests.unit.broker_data_plane.test_a_request_costs_what_it_names import until
from tests.unit.kafkawire.made_batches import made_batch

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
IN_STEP = (1, 2)
WHOLE, FINAL = 0, -1
BATCH_BYTES = len(made_batch([b"a"]))


def fetch(
    offsets: Mapping[int, int],
    session: tuple[int, int] = (0, WHOLE),
    *,
    version: int = 13,
    wait_ms: int = 0,
    most_bytes: int = 1_000_000,
    forgotten: tuple[int, ...] = (),
    epoch: int = -1,
) -> Any:
    """A Fetch of these partitions of orders from these offsets; `session` is (id, epoch)."""
    shape = request_class(FETCH, version)
    asked = tuple(
        build(
            part(shape, "FetchPartition"),
            partition=partition,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            partition_max_bytes=1_000_000,
        )
        for partition, offset in offsets.items()
    )
    topic = build(part(shape, "FetchTopic"), topic="orders", topic_id=ORDERS, partitions=asked)
    gone = build(part(shape, "ForgottenTopic"), topic="orders", topic_id=ORDERS, partitions=forgotten)
    return build(
        shape,
        **({} if version >= 15 else {"replica_id": -1}),
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=1,
        max_bytes=most_bytes,
        isolation_level=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=(topic,) if asked else (),
        forgotten_topics_data=(gone,) if forgotten else (),
    )


def told(body: Any) -> dict[int, tuple[int, int, int]]:
    """(error, high watermark, bytes) of each partition that an answer names."""
    return {
        one.partition_index: (int(one.error_code), one.high_watermark, len(one.records or b""))
        for topic in body.responses
        for one in topic.partitions
    }


async def begin(ann: Client, offsets: Mapping[int, int], version: int = 13) -> int:
    """The id of a session that has begun."""
    body = await ann.ask(FETCH, version, fetch(offsets, version=version))
    assert body.session_id > 0
    assert told(body).keys() == offsets.keys()
    return int(body.session_id)


@pytest.mark.parametrize("version", range(7, 17))
async def test_a_fetch_that_changes_nothing_names_nothing_and_is_told_nothing(
    tmp_path: Path, version: int
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, partitions=3)
        session = await begin(ann, {0: 0, 1: 0, 2: 0}, version)
        for turn in (1, 2):
            body = await ann.ask(FETCH, version, fetch({}, (session, turn), version=version))
            assert (body.session_id, int(body.error_code), told(body)) == (session, 0, {})


async def test_only_partitions_with_news_are_told(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as ben:
        one.obey(1, partitions=3)
        session = await begin(ann, {0: 0, 1: 0, 2: 0})
        await ben.ask(PRODUCE, 9, produce(b"a", partition=1))
        assert told(await ann.ask(FETCH, 13, fetch({}, (session, 1)))) == {1: (0, 1, BATCH_BYTES)}
        assert told(await ann.ask(FETCH, 13, fetch({1: 1}, (session, 2)))) == {}


async def test_a_session_waits_and_is_woken(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as ben:
        one.obey(1, partitions=3)
        session = await begin(ann, {0: 0, 1: 0, 2: 0})
        ann.send(FETCH, 13, fetch({}, (session, 1), wait_ms=5_000))
        assert await ann.is_quiet()
        assert one.client.server.parked_elements == 1
        await ben.ask(PRODUCE, 9, produce(b"a", partition=2))
        assert told(await ann.hear()) == {2: (0, 1, BATCH_BYTES)}


async def test_who_does_not_say_that_it_moved_is_sent_the_records_again(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(PRODUCE, 9, produce(b"a"))
        session = await begin(ann, {0: 0})
        again = await ann.ask(FETCH, 13, fetch({}, (session, 1)))
        assert told(again) == {0: (0, 1, BATCH_BYTES)}


async def test_partitions_that_are_forgotten_are_told_no_more_and_new_ones_are(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, partitions=3)
        session = await begin(ann, {0: 0, 1: 0})
        body = await ann.ask(FETCH, 13, fetch({2: 0}, (session, 1), forgotten=(0, 7)))
        assert told(body) == {2: (0, 0, 0)}
        for partition in range(3):
            await ann.ask(PRODUCE, 9, produce(b"a", partition=partition))
        assert told(await ann.ask(FETCH, 13, fetch({}, (session, 2)))).keys() == {1, 2}


async def test_a_session_that_names_nothing_any_more_is_over(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        session = await begin(ann, {0: 0})
        body = await ann.ask(FETCH, 13, fetch({}, (session, 1), wait_ms=5_000, forgotten=(0,)))
        assert (body.session_id, told(body)) == (0, {})
        assert_nothing_is_kept(one)


def assert_nothing_is_kept(of: Broker) -> None:
    assert (len(of.client.fetches.sessions), of.client.fetches.sessions.partitions) == (0, 0)
    assert all(not hosted.readers for hosted in of.plane.partitions())


async def test_what_found_no_room_in_one_answer_comes_with_the_next(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, partitions=3)
        session = await begin(ann, {0: 0, 1: 0, 2: 0})
        for partition in range(3):
            await ann.ask(PRODUCE, 9, produce(b"a", partition=partition))
        got: list[int] = []
        offsets: dict[int, int] = {}
        for turn in range(1, 4):
            body = await ann.ask(FETCH, 13, fetch(offsets, (session, turn), most_bytes=1))
            named = told(body)
            got += named
            assert [size for _, _, size in named.values()] == [BATCH_BYTES]
            offsets = dict.fromkeys(named, 1)
        assert got == [0, 1, 2]


async def test_partitions_take_turns_when_one_never_runs_dry(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, partitions=2)
        for value in range(3):
            for partition in range(2):
                await ann.ask(PRODUCE, 9, produce(b"%d" % value, partition=partition))
        positions = {0: 0, 1: 0}
        body = await ann.ask(FETCH, 13, fetch(positions, most_bytes=1))
        session, got = body.session_id, []
        for turn in range(1, 6):
            (moved,) = (index for index, (_, _, size) in told(body).items() if size)
            got.append(moved)
            positions[moved] += 1
            asked = fetch({moved: positions[moved]}, (session, turn), most_bytes=1)
            body = await ann.ask(FETCH, 13, asked)
        assert got == [0, 1, 0, 1, 0]


async def test_the_high_watermark_and_the_start_are_told_when_they_change(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, partitions=2)
        await ann.ask(PRODUCE, 9, produce(b"a"))
        await ann.ask(PRODUCE, 9, produce(b"b"))
        session = await begin(ann, {0: 2, 1: 0})
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        hosted.delete_before(1, 0)
        body = await ann.ask(FETCH, 13, fetch({}, (session, 1)))
        (answer,) = body.responses[0].partitions
        assert (answer.partition_index, answer.log_start_offset, answer.high_watermark) == (0, 1, 2)


async def test_who_waits_on_what_is_deleted_hears_it_at_once(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        for value in (b"a", b"b"):
            await ann.ask(PRODUCE, 9, produce(value, acks=1))
        session = await begin(ann, {0: 0})
        ann.send(FETCH, 13, fetch({}, (session, 1), wait_ms=5_000))
        assert await ann.is_quiet()
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        hosted.delete_before(1, 0)
        assert told(await ann.hear())[0][0] == 1
        assert await two.is_quiet()


@pytest.mark.parametrize(("version", "by_id"), [(12, False), (13, True)])
async def test_an_error_is_told_at_once_and_after_that_with_each_answer(
    tmp_path: Path, version: int, by_id: bool
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=IN_STEP, partitions=2)
        session = await begin(ann, {0: 0, 1: 0}, version)
        ann.send(FETCH, version, fetch({}, (session, 1), version=version, wait_ms=5_000))
        assert await ann.is_quiet()
        one.obey(2, leader=2, epoch=2, replicas=IN_STEP, partitions=2)
        first = told(await ann.hear())
        assert {index: code for index, (code, _, _) in first.items()} == {0: 6, 1: 6}
        # Who does not heed it is not answered again and again in a hurry.
        ann.send(FETCH, version, fetch({}, (session, 2), version=version, wait_ms=5_000))
        assert await ann.is_quiet()
        one.obey(3, leader=1, epoch=3, replicas=IN_STEP, isr=(1,), partitions=2)
        ann.send(FETCH, version, fetch({}, (session, 3), version=version))
        assert {code for code, _, _ in told(await ann.hear()).values()} <= {0, 6}
        assert told(await ann.hear()).keys() <= {0, 1}
        await ann.ask(PRODUCE, 9, produce(b"a", acks=1))
        later = told(await ann.ask(FETCH, version, fetch({}, (session, 4), version=version)))
        assert later == {0: (0, 1, BATCH_BYTES)}


async def test_who_states_an_epoch_that_is_over_is_told_so_once_it_is(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        body = await ann.ask(FETCH, 13, fetch({0: 0}, epoch=1))
        one.obey(2, epoch=2)
        again = await ann.ask(FETCH, 13, fetch({}, (body.session_id, 1)))
        assert told(again)[0][0] == 74
        moved = await ann.ask(FETCH, 13, fetch({0: 0}, (body.session_id, 2), epoch=2))
        assert told(moved) == {0: (0, 0, 0)}


async def test_a_partition_that_comes_here_later_is_found(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        body = await ann.ask(FETCH, 13, fetch({0: 0, 1: 0}))
        assert told(body)[1][0] == 3
        one.obey(2, partitions=2)
        assert told(await ann.ask(FETCH, 13, fetch({}, (body.session_id, 1)))) == {1: (0, 0, 0)}
        await ann.ask(PRODUCE, 9, produce(b"a", partition=1))
        last = await ann.ask(FETCH, 13, fetch({}, (body.session_id, 2)))
        assert told(last) == {1: (0, 1, BATCH_BYTES)}


async def test_a_session_out_of_turn_or_of_nobody_is_refused_as_a_whole(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as ben:
        one.obey(1)
        unknown = await ann.ask(FETCH, 13, fetch({}, (77, 1)))
        session = await begin(ann, {0: 0})
        early = await ann.ask(FETCH, 13, fetch({}, (session, 2)))
        other = await ann.ask(FETCH, 13, fetch({}, (session + 1, 1)))
        nobody = await ann.ask(FETCH, 13, fetch({}, (0, 1)))
        of_another = await ben.ask(FETCH, 13, fetch({}, (session, 1)))
        refusals = [int(body.error_code) for body in (unknown, early, other, nobody, of_another)]
        assert refusals == [70, 71, 70, 70, 70]
        assert [body.session_id for body in (unknown, early)] == [0, 0]
        assert told(await ann.ask(FETCH, 13, fetch({}, (session, 1)))) == {}


async def test_names_and_ids_of_topics_are_not_mixed(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        session = await begin(ann, {0: 0}, version=12)
        assert int((await ann.ask(FETCH, 13, fetch({}, (session, 1)))).error_code) == 106


async def test_a_fetch_of_everything_ends_the_session_before_it(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, partitions=2)
        first = await begin(ann, {0: 0, 1: 0})
        body = await ann.ask(FETCH, 13, fetch({0: 0}, (first, WHOLE)))
        assert body.session_id not in (0, first)
        assert int((await ann.ask(FETCH, 13, fetch({}, (first, 1)))).error_code) == 70
        last = await ann.ask(FETCH, 13, fetch({0: 0}, (body.session_id, FINAL)))
        assert (last.session_id, told(last)) == (0, {0: (0, 0, 0)})
        assert_nothing_is_kept(one)


async def test_who_asks_again_before_it_was_answered_is_answered_both(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        session = await begin(ann, {0: 0})
        ann.send(FETCH, 13, fetch({}, (session, 1), wait_ms=5_000))
        ann.send(FETCH, 13, fetch({}, (session, 2)))
        assert [told(await ann.hear()) for _ in range(2)] == [{}, {}]


async def test_a_session_ends_with_its_connection(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1)
        for wait_ms in (0, 5_000):
            async with client(one.client_port) as ann:
                session = await begin(ann, {0: 0})
                ann.send(FETCH, 13, fetch({}, (session, 1), wait_ms=wait_ms))
                await until(lambda: one.client.server.counters.requests % 2 == 0)
            await until(lambda: not len(one.client.fetches.sessions))
            assert_nothing_is_kept(one)


async def test_without_a_free_slot_every_fetch_is_whole(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as ben:
        one.client.fetches.sessions._bounds = SessionBounds(slots=2)
        one.obey(1)
        session = await begin(ann, {0: 0})
        assert (await ben.ask(FETCH, 13, fetch({0: 0}))).session_id == 0
        assert told(await ann.ask(FETCH, 13, fetch({}, (session, 1)))) == {}


async def test_who_has_to_go_while_it_waits_is_answered_and_begins_anew(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as ben:
        one.client.fetches.sessions._bounds = bounds = SessionBounds(slots=2)
        one.obey(1)
        session = await begin(ann, {0: 0})
        ann.send(FETCH, 13, fetch({}, (session, 1), wait_ms=5_000))
        assert await ann.is_quiet()
        one.now_ms += bounds.min_eviction_ms + 1
        assert await begin(ben, {0: 0}) != session
        body = await ann.hear()
        assert (body.session_id, told(body)) == (0, {})
        assert int((await ann.ask(FETCH, 13, fetch({}, (session, 2)))).error_code) == 70


async def test_a_session_names_no_more_than_one_request_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers_fetch, "MOST_PARTITIONS", 2)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, partitions=3)
        session = await begin(ann, {0: 0, 1: 0})
        assert int((await ann.ask(FETCH, 13, fetch({2: 0}, (session, 1)))).error_code) == 70
        assert_nothing_is_kept(one)


async def test_what_is_not_committed_wakes_no_session(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        session = await begin(ann, {0: 0})
        ann.send(FETCH, 13, fetch({}, (session, 1), wait_ms=5_000))
        async with client(one.client_port) as ben:
            await ben.ask(PRODUCE, 9, produce(b"a", acks=1))
        assert await ann.is_quiet()
        await two.ask(FETCH, 16, followers_fetch(1, version=16, replica=(2, 1), leader_epoch=1, last_epoch=1))
        assert told(await ann.hear()) == {0: (0, 1, BATCH_BYTES)}


async def test_an_idle_session_looks_at_no_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, partitions=50)
        session = await begin(ann, dict.fromkeys(range(50), 0))
        read: list[Any] = []
        read_place = consumer_session.ConsumerSession._read_place

        def counted(self: Any, place: Any) -> Any:
            read.append(place)
            return read_place(self, place)

        monkeypatch.setattr(consumer_session.ConsumerSession, "_read_place", counted)
        await ann.ask(FETCH, 13, fetch({}, (session, 1)))
        assert read == []
        await ann.ask(FETCH, 13, fetch({3: 0}, (session, 2)))
        assert len(read) == 1
