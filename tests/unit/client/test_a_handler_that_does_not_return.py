"""An application that asks for no more records keeps its partitions from others only as long as it said."""

import asyncio
from typing import Any

import pytest

from muster import PartitionsLost, RebalanceListener, State
from muster.client import clock
from muster.client.conversation import Patience
from muster.client.core.session import MemberSession, Stage
from muster.client.listening import Places
from muster.client.tenure import Stream
from muster.kernel.instants import Instant, after
from muster.messages.member import CommitOffsetsResponse, LeaveRequest, LeaveResponse, StopFetcherResponse
from muster.messages.partitions import Position, each_position
from tests.unit.client.ann import Ann
from tests.unit.client_core.test_a_member_obeys_its_coordinator import orders, start, stop

POLL_MS = 3_000


def ann_with_a_record_in_hand(**patience: Any) -> Ann:
    """Of two that she was given, she has finished one; she was given the second just now."""
    now = clock.now()
    ann = Ann(patience=Patience(**patience))
    ann.registers(now)
    tenure = ann.starts(start(1, 40), now)
    ann.line.said()
    tenure.finished_to, tenure.delivered_to = 41, 42
    ann.conversation.processing.main.in_hand = tenure
    ann.conversation.processing.main.since = now
    return ann


def later(ann: Ann, ms: int) -> Instant:
    """So long after she was given the record."""
    return after(ann.conversation.processing.main.since, ms)


async def the_end_of(ann: Ann) -> LeaveRequest:
    """She stops, commits what she has finished, and leaves."""
    async with asyncio.TaskGroup() as ann.conversation._tasks:
        ann.conversation._lose_patience(later(ann, POLL_MS))
    ann.conversation._tasks = None
    [commit] = ann.line.said()
    assert dict(each_position(commit.offset_info)) == {orders(0): Position(41, 1)}  # type: ignore[attr-defined]
    ann.hears(CommitOffsetsResponse(correlation_id=commit.correlation_id), clock.now())  # type: ignore[attr-defined]
    [leave] = ann.line.said()
    assert isinstance(leave, LeaveRequest)
    ann.hears(LeaveResponse(correlation_id=leave.correlation_id), clock.now())
    return leave


async def test_she_leaves_and_says_why_and_the_record_in_hand_does_not_count_as_finished() -> None:
    ann = ann_with_a_record_in_hand(handler_ms=POLL_MS)
    leave = await the_end_of(ann)
    assert leave.reason == "no record was asked for within 3000 ms"
    assert ann.conversation.standing().state is State.AWAY and not ann.conversation.left.is_set()
    with pytest.raises(PartitionsLost):
        await ann.conversation.commit()


async def test_she_is_a_member_again_when_she_asks_for_the_next_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ann = ann_with_a_record_in_hand(handler_ms=POLL_MS)
    await the_end_of(ann)
    before = ann.conversation.session
    monkeypatch.setattr(clock, "now", lambda: later(ann, POLL_MS))
    ann.conversation.processing.main.asked = True
    ann.conversation.processing.come_back()
    talking = asyncio.create_task(ann.conversation._talk())
    while ann.conversation.absent:
        await asyncio.sleep(0)
    assert ann.conversation.session is not before and before.stage is Stage.OVER
    talking.cancel()
    await asyncio.gather(talking, return_exceptions=True)


async def test_before_that_and_without_a_limit_nothing_happens() -> None:
    ann = ann_with_a_record_in_hand(handler_ms=POLL_MS)
    ann.conversation._lose_patience(later(ann, POLL_MS - 1))
    assert ann.tenures()
    endless = ann_with_a_record_in_hand()
    endless.conversation._lose_patience(later(endless, 1_000_000))
    assert endless.tenures()


async def test_who_waits_for_a_record_is_not_waited_for() -> None:
    ann = ann_with_a_record_in_hand(handler_ms=POLL_MS)
    ann.conversation.processing.main.asked = True
    ann.conversation._lose_patience(later(ann, 1_000_000))
    assert ann.tenures()


async def test_closing_while_she_is_away_is_closing_at_once() -> None:
    ann = ann_with_a_record_in_hand(handler_ms=POLL_MS)
    await the_end_of(ann)
    ann.conversation.leave()
    assert ann.conversation.left.is_set()


async def test_a_farewell_that_was_cut_off_ends_nothing_of_the_session_that_follows() -> None:
    """Its listener still hears of the one when partitions of the other are to be handed over."""
    goes_on = asyncio.Event()

    class Slow(RebalanceListener):
        async def on_revoked(self, partitions: Places) -> None:
            await goes_on.wait()

    ann = ann_with_a_record_in_hand(handler_ms=POLL_MS)
    conversation = ann.conversation
    conversation.listening._listener = Slow()  # type: ignore[misc]
    async with asyncio.timeout(20), asyncio.TaskGroup() as conversation._tasks:
        conversation._lose_patience(later(ann, POLL_MS))
        while not conversation.listening._calling:
            await asyncio.sleep(0)
        ann.loses_its_connection(clock.now())
        session_timeout_ms = conversation.session.wishes.session_timeout_ms
        conversation._obey(conversation.session.tick(later(ann, session_timeout_ms)))
        assert conversation.session.stage is Stage.OVER
        conversation.session = MemberSession(conversation.session.wishes)
        ann.registers(clock.now())
        ann.starts(start(2, 41), clock.now())
        ann.line.said()
        ann.hears(stop(2, 0), clock.now())
        goes_on.set()
    conversation._tasks = None
    [answer] = ann.line.said()
    assert isinstance(answer, StopFetcherResponse) and answer.version == 2
    assert dict(each_position(answer.offset_info)) == {orders(0): Position(41, 1)}


async def test_an_idle_member_whose_streams_nobody_has_dealt_yet_is_waited_for() -> None:
    now = clock.now()
    ann = Ann(patience=Patience(handler_ms=POLL_MS))
    ann.registers(now)
    ann.conversation.processing.main.since = Instant(now - 2 * POLL_MS)
    with ann.conversation.processing.work():
        ann.conversation._lose_patience(now)
        assert not ann.conversation.absent
    ann.conversation._lose_patience(now)
    assert not ann.conversation.absent


async def test_one_handler_of_many_that_does_not_return_is_enough_to_leave() -> None:
    now = clock.now()
    ann = Ann(patience=Patience(handler_ms=POLL_MS))
    ann.registers(now)
    processing = ann.conversation.processing
    with processing.work():
        slow, waits = (processing.open_hand(Stream("orders", name)) for name in ("ann-0", "ann-1"))
        slow.since, waits.asked = Instant(now - POLL_MS), True
        ann.conversation._lose_patience(now)
        assert ann.conversation.absent
        processing.come_back()
        assert not ann.conversation._returned.is_set()
        slow.asked = True
        processing.come_back()
        assert ann.conversation._returned.is_set()
