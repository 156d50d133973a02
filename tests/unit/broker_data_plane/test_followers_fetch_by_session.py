"""A follower's session: what moved is named, what has news is answered, and its progress commits records."""

import asyncio
import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker import fetch_answers, handlers_replication
from broker.core.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH
from broker.core.replica import Replica
from broker.core.replica_log import PartitionKey
from broker.handlers_replication import FollowerSession
from broker.hosted import HostedPartition
from kafkaserver.limits import ServerLimits
from muster.kafkawire.api_table import ApiKey
from muster.kafkawire.fetch_requests import AskedPartition
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_data_plane.planes import (
    ORDERS,
    broker,
    client,
    fetch,
    fetched,
    follower,
    produce,
    produced,
)

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
IN_STEP = (1, 2)
LONGEST_WAIT_MS = 2**31 - 1


def follow(offset: int, **more: Any) -> Any:
    last_epoch = 1 if offset else -1
    asked = {"version": 16, "replica": (2, 1), "leader_epoch": 1, "last_epoch": last_epoch, "session": (0, 0)}
    return fetch(offset, **{**asked, **more})


async def test_an_idle_session_is_asked_and_answered_with_nothing(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        begun = await two.ask(FETCH, 16, follow(0))
        assert begun.session_id > 0
        again = await two.ask(FETCH, 16, follow(0, session=(begun.session_id, 1), is_empty=True))
        assert (again.session_id, again.responses) == (begun.session_id, ())


async def test_who_is_level_is_answered_once_in_each_leader_epoch(tmp_path: Path) -> None:
    """It has to hear that it is: only then it knows that nothing of its log was cut."""
    async with broker(tmp_path) as one, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        begun = await two.ask(FETCH, 16, follow(0))
        one.obey(1, replicas=IN_STEP, epoch=2)
        asked = follow(0, session=(begun.session_id, 1), leader_epoch=2)
        answer = fetched(await two.ask(FETCH, 16, asked))
        assert (answer.error_code, answer.high_watermark) == (0, 0)
        again = follow(0, session=(begun.session_id, 2), leader_epoch=2)
        assert (await two.ask(FETCH, 16, again)).responses == ()


async def test_a_waiting_session_is_woken_by_an_append_and_sent_the_records_once(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        begun = await two.ask(FETCH, 16, follow(0))
        two.send(FETCH, 16, follow(0, session=(begun.session_id, 1), is_empty=True, max_wait_ms=5_000))
        ann.send(PRODUCE, 9, produce(b"a"))
        answer = fetched(await two.hear())
        assert len(answer.records) > 0
        two.send(FETCH, 16, follow(1, session=(begun.session_id, 2), max_wait_ms=5_000))
        assert produced(await ann.hear()) == (0, 0)
        assert await two.is_quiet()


async def test_what_finds_no_room_in_an_answer_comes_first_in_the_next_though_nothing_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three partitions of a move that nobody writes to, and room for one batch and a half."""
    monkeypatch.setattr(handlers_replication, "RESPONSE_BYTES", 1_500)
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP, isr=(1,), partitions=3)
        for number in range(3):
            await ann.ask(PRODUCE, 9, produce(b"x" * 1_000, acks=1, partition=number))
        request = follow(0)
        (topic,) = request.topics
        every = tuple(replace(topic.partitions[0], partition=number) for number in range(3))
        begun = await two.ask(FETCH, 16, replace(request, topics=(replace(topic, partitions=every),)))
        sent = [sent_of(begun)]
        for epoch in (1, 2):
            stored = replace(follow(1).topics[0].partitions[0], partition=sent[-1][0])
            moved = follow(1, session=(begun.session_id, epoch))
            moved = replace(moved, topics=(replace(moved.topics[0], partitions=(stored,)),))
            sent.append(sent_of(await two.ask(FETCH, 16, moved)))
        assert sorted(sent) == [[0], [1], [2]]


def sent_of(answer: Any) -> list[int]:
    """Partitions of which it holds records."""
    return [one.partition_index for topic in answer.responses for one in topic.partitions if one.records]


async def test_who_did_not_store_what_it_was_sent_is_sent_it_again(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        await ann.ask(PRODUCE, 9, produce(b"a", acks=1))
        begun = await two.ask(FETCH, 16, follow(0))
        again = await two.ask(FETCH, 16, follow(0, session=(begun.session_id, 1), is_empty=True))
        assert fetched(again).records == fetched(begun).records


async def test_a_diverging_follower_is_told_where_and_makes_no_progress(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        ann.send(PRODUCE, 9, produce(b"a"))
        assert await ann.is_quiet()
        answer = fetched(await two.ask(FETCH, 16, follow(5, last_epoch=1, max_wait_ms=5_000)))
        assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, 1)
        assert await ann.is_quiet()


@pytest.mark.parametrize(
    ("asked", "code"),
    [({"leader_epoch": 0}, 74), ({"leader_epoch": 9}, 75), ({"replica": (3, 1)}, 75)],
    ids=["an older epoch", "a later epoch", "no replica of it"],
)
async def test_a_follower_that_may_not_fetch_is_told_why_at_once(
    tmp_path: Path, asked: dict[str, Any], code: int
) -> None:
    broker_id, _ = asked.get("replica", (2, 1))
    async with broker(tmp_path) as one, follower(one, broker_id) as link:
        one.obey(1, replicas=IN_STEP)
        answer = fetched(await link.ask(FETCH, 16, follow(0, max_wait_ms=5_000, **asked)))
        assert int(answer.error_code) == code


async def test_an_unknown_session_and_a_wrong_turn_are_refused_as_a_whole(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        unknown = await two.ask(FETCH, 16, follow(0, session=(99, 1)))
        assert int(unknown.error_code) == 70
        begun = await two.ask(FETCH, 16, follow(0))
        wrong = await two.ask(FETCH, 16, follow(0, session=(begun.session_id, 5)))
        assert int(wrong.error_code) == 71


async def test_a_fetch_that_begins_no_session_is_answered_and_forgotten(tmp_path: Path) -> None:
    """Its log would tell each of them of every append for ever."""
    async with broker(tmp_path) as one, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        for max_wait_ms in (0, 1):
            answer = await two.ask(FETCH, 16, follow(0, session=(0, -1), max_wait_ms=max_wait_ms))
            assert (answer.session_id, int(fetched(answer).error_code)) == (0, 0)
            assert hosted.followers == set()


async def test_a_broker_speaks_for_itself_only_and_only_in_its_own_epoch(tmp_path: Path) -> None:
    """A fetch of epoch 2^62 would have its true follower refused for ever."""
    async with broker(tmp_path) as one, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        refused = []
        for replica in ((77, 1), (3, 1), (1, 1), (2, 0), (2, 2**62), (2, -1)):
            body = await two.ask(FETCH, 16, follow(0, replica=replica))
            refused.append(int(body.error_code))
        assert refused == [31, 31, 31, 77, 77, 77]
        assert int(fetched(await two.ask(FETCH, 16, follow(0))).error_code) == 0
        two.send(PRODUCE, 9, produce(b"a"))
        with pytest.raises(EOFError):
            await two.hear()


async def test_a_stranger_that_skips_the_introduction_is_cut_off(tmp_path: Path) -> None:
    """At the end of the log, as a member of the ISR, it would have records committed that nobody else has."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=IN_STEP)
        ann.send(PRODUCE, 9, produce(b"a"))
        async with client(one.replication_port) as stranger:
            stranger.send(FETCH, 16, follow(1, last_epoch=1))
            with pytest.raises(EOFError):
                await stranger.hear()
        assert await ann.is_quiet()


async def test_a_stranger_that_says_nothing_is_cut_off_soon(tmp_path: Path) -> None:
    silent_for = ServerLimits(admission_ms=20)
    async with broker(tmp_path, limits=silent_for) as one, client(one.replication_port) as stranger:
        with pytest.raises(EOFError):
            await stranger.hear()


async def test_a_follower_that_catches_up_asks_to_be_let_in(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP, isr=(1,))
        asked = []
        one.plane.on_may_grow = lambda hosted: asked.append(one.plane.proposal(hosted, link_ready=True))
        await ann.ask(PRODUCE, 9, produce(b"a"))
        await two.ask(FETCH, 16, follow(0))
        assert asked == []
        await two.ask(FETCH, 16, follow(1))
        assert [proposal.isr for proposal in asked if proposal] == [(1, 2)]


async def test_two_data_planes_hold_equal_logs(tmp_path: Path) -> None:
    async with broker(tmp_path, 1) as one, broker(tmp_path, 2) as two, client(one.client_port) as ann:
        for member in (one, two):
            member.obey(1, replicas=IN_STEP)
        async with follower(one) as link:
            for value in (b"a", b"b", b"c"):
                ann.send(PRODUCE, 9, produce(value, producer=(7, 0, ord(value) - ord("a"))))
            session, turn = 0, 0
            (followed,) = two.plane.followed()
            key = PartitionKey(ORDERS, 0)
            while followed.log.end_offset < 3 or turn < 3:
                position = followed.replica.next_fetch()
                assert position is not None
                body = await link.ask(
                    FETCH,
                    16,
                    follow(position.offset, last_epoch=position.last_epoch, session=(session, turn)),
                )
                session, turn = body.session_id, turn + 1
                for topic in body.responses:
                    (answer,) = topic.partitions
                    assert two.plane.append_fetched(key, position, answer.records, answer.high_watermark)
            assert [produced(await ann.hear()) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
        leader = one.plane.named("orders", 0)
        assert leader is not None
        paths = [log.folder / f"{0:020}.log" for log in (leader.log, followed.log)]
        assert paths[0].read_bytes() == paths[1].read_bytes()
        two.obey(2, leader=2, epoch=2, replicas=IN_STEP, isr=(2,))
        async with client(two.client_port) as ben:
            retried = produced(await ben.ask(PRODUCE, 9, produce(b"c", producer=(7, 0, 2))))
        assert retried == (0, 2)


async def test_a_stopped_replica_is_set_aside(tmp_path: Path) -> None:
    async with broker(tmp_path, 1) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(PRODUCE, 9, produce(b"a"))
        one.obey(2, leader=2, epoch=2, replicas=(2,))
        assert one.plane.named("orders", 0) is None
        assert len(list((tmp_path / "1").glob("orders-0.*-delete"))) == 1
        assert produced(await ann.ask(PRODUCE, 9, produce(b"b"))) == (6, -1)


async def test_a_session_goes_on_with_a_replica_that_was_stopped_and_came_again(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        session = (await two.ask(FETCH, 16, follow(0))).session_id
        two.send(FETCH, 16, follow(0, session=(session, 1), is_empty=True, max_wait_ms=5_000))
        assert await two.is_quiet()
        one.obey(2, leader=2, epoch=2, replicas=(2,))
        assert fetched(await two.hear()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        one.obey(3, leader=2, epoch=2, replicas=IN_STEP, isr=(2,))
        one.obey(4, epoch=3, replicas=IN_STEP)
        level = fetched(await two.ask(FETCH, 16, follow(0, session=(session, 2), leader_epoch=3)))
        assert (level.error_code, level.high_watermark) == (0, 0)
        two.send(FETCH, 16, follow(0, session=(session, 3), is_empty=True, max_wait_ms=5_000))
        ann.send(PRODUCE, 9, produce(b"a"))
        assert len(fetched(await two.hear()).records) > 0
        asked = follow(1, session=(session, 4), leader_epoch=3, last_epoch=3, max_wait_ms=5_000)
        two.send(FETCH, 16, asked)
        assert produced(await ann.hear()) == (0, 0)


async def test_a_follower_that_keeps_up_is_read_for_once_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has stored is committed by its next fetch, which is no reason to read the log for it."""
    read: list[int] = []
    records_of = fetch_answers.records_of

    def counted(hosted: HostedPartition, asked: AskedPartition, *more: Any, **named: Any) -> Any:
        read.append(asked.offset)
        return records_of(hosted, asked, *more, **named)

    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        session = (await two.ask(FETCH, 16, follow(0))).session_id
        monkeypatch.setattr(handlers_replication, "records_of", counted)
        two.send(FETCH, 16, follow(0, session=(session, 1), is_empty=True, max_wait_ms=5_000))
        for number in range(3):
            ann.send(PRODUCE, 9, produce(b"a"))
            answer = fetched(await two.hear())
            assert (len(answer.records) > 0, answer.high_watermark) == (True, number)
            asked = follow(number + 1, session=(session, number + 2), max_wait_ms=5_000)
            two.send(FETCH, 16, asked)
            assert produced(await ann.hear()) == (0, number)
        assert read == [0, 1, 2]


async def test_a_level_follower_of_an_idle_partition_is_judged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 of them, judged each second, took a twentieth of a core."""
    judged: list[int] = []
    judge = Replica.follower_fetches

    def counted(self: Replica, *asked: Any) -> Any:
        judged.append(asked[0])
        return judge(self, *asked)

    monkeypatch.setattr(Replica, "follower_fetches", counted)
    async with broker(tmp_path) as one, client(one.client_port) as ann, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        session = (await two.ask(FETCH, 16, follow(0))).session_id
        for turn in range(1, 4):
            one.now_ms += handlers_replication.WHOLE_PASS_MS
            await two.ask(FETCH, 16, follow(0, session=(session, turn), is_empty=True))
        assert judged == [2]
        # It was level until its last fetch, so it does not lag when the log grows a lag limit later.
        one.now_ms += one.plane.settings.replica_lag_time_max_ms
        ann.send(PRODUCE, 9, produce(b"a"))
        assert await ann.is_quiet()
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        assert one.plane.proposal(hosted, link_ready=True) is None
        one.now_ms += 1
        proposal = one.plane.proposal(hosted, link_ready=True)
        assert proposal is not None and proposal.isr == (1,)


async def test_a_follower_that_the_row_leaves_out_asks_again_though_it_does_not_move(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, follower(one) as two:
        one.obey(1, replicas=IN_STEP)
        session = (await two.ask(FETCH, 16, follow(0))).session_id
        asked = []
        one.plane.on_may_grow = lambda hosted: asked.append(one.plane.proposal(hosted, link_ready=True))
        one.obey(2, replicas=IN_STEP, isr=(1,))
        one.now_ms += handlers_replication.WHOLE_PASS_MS
        await two.ask(FETCH, 16, follow(0, session=(session, 1), is_empty=True))
        assert [proposal.isr for proposal in asked if proposal] == [(1, 2)]


@pytest.mark.parametrize("session_epoch", [FIRST_EPOCH, FINAL_EPOCH])
async def test_a_fetch_that_waits_ends_with_its_connection(tmp_path: Path, session_epoch: int) -> None:
    """Else it was kept for as long as it had asked to wait, and its connection with it."""
    async with broker(tmp_path) as one:
        one.obey(1, replicas=IN_STEP)
        async with follower(one) as two:
            begun = follow(0, session=(0, session_epoch), start_offset=0, max_wait_ms=LONGEST_WAIT_MS)
            two.send(FETCH, 16, begun)
            assert await two.is_quiet()
        while one.replication.server.connection_count:
            await asyncio.sleep(0)
        gc.collect()
        kept = [found for found in gc.get_objects() if type(found) is FollowerSession]
        assert not any(session.is_parked and session._plane is one.plane for session in kept)


async def test_a_fetch_that_waits_is_answered_when_its_follower_begins_another_session(
    tmp_path: Path,
) -> None:
    """Where its machine died, the old connection is found out by nothing else."""
    async with broker(tmp_path) as one, follower(one) as two, follower(one) as two_again:
        one.obey(1, replicas=IN_STEP)
        two.send(FETCH, 16, follow(0, start_offset=0, max_wait_ms=LONGEST_WAIT_MS))
        assert await two.is_quiet()
        await two_again.ask(FETCH, 16, follow(0))
        answer = await two.hear()
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_follower_that_was_level_until_its_connection_broke_does_not_lag(tmp_path: Path) -> None:
    """Of an idle log it was judged long before; that it went on to ask says that it was level until now."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=IN_STEP)
        async with follower(one) as two:
            session = (await two.ask(FETCH, 16, follow(0))).session_id
            one.now_ms += 2 * one.plane.settings.replica_lag_time_max_ms
            two.send(FETCH, 16, follow(0, session=(session, 1), is_empty=True, max_wait_ms=LONGEST_WAIT_MS))
            assert await two.is_quiet()
        while one.replication.server.connection_count:
            await asyncio.sleep(0)
        await ann.ask(PRODUCE, 9, produce(b"a", acks=1))
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None and one.plane.proposal(hosted, link_ready=True) is None
