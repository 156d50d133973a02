"""A follower asks a peer for everything once, then only for the partitions that moved (KIP-227)."""

from uuid import UUID

import pytest

from broker.core.fetch_sessions import FetchRefused
from broker.core.replica import FetchPosition
from broker.core.replica_log import EpochEnd
from broker.fetch_session import (
    MOST_NAMED,
    FetchedAnswer,
    FetchLimits,
    FetchSession,
)
from broker.handlers_replication import FOLLOWERS_ELEMENTS
from muster.kafkawire.api_table import read_request_header
from muster.kafkawire.fetch_requests import FOLLOWERS_VERSION, FetchRequest, fetch_frame, read_fetch
from muster.kafkawire.fetching import (
    Diverging,
    FetchAnswer,
    FetchedPartition,
    FetchedTopic,
    lay_out_fetch_reply,
    read_fetch_answer,
)
from muster.kernel.error_codes import ErrorCode

ORDERS = UUID(int=1)
CLICKS = UUID(int=2)
LIMITS = FetchLimits(wait_max_ms=500, min_bytes=1, max_bytes=10_000, partition_max_bytes=1_000)


def session() -> FetchSession:
    return FetchSession(broker_id=3, broker_epoch=7, limits=LIMITS)


def at(offset: int, leader_epoch: int = 4, last_epoch: int = 4) -> FetchPosition:
    return FetchPosition(1, leader_epoch, offset, last_epoch)


def answer(
    session_id: int, *partitions: FetchedPartition[bytes], error: int = 0, topic: UUID = ORDERS
) -> FetchAnswer:
    """What a peer's door sends, read by the follower."""
    topics = [FetchedTopic("", topic, partitions)] if partitions else []
    frame = b"".join(lay_out_fetch_reply(FOLLOWERS_VERSION, 1, topics, error, session_id))
    return read_fetch_answer(memoryview(frame)[4:])


def asked(request: FetchRequest) -> dict[tuple[UUID, int], tuple[int, int, int]]:
    return {
        (topic.topic_id, p.partition): (p.leader_epoch, p.offset, p.last_epoch)
        for topic in request.topics
        for p in topic.partitions
    }


def forgotten(request: FetchRequest) -> set[tuple[UUID, int]]:
    return {(topic.topic_id, index) for topic in request.forgotten for index in topic.partitions}


def test_the_first_fetch_names_everything_and_who_asks() -> None:
    fetches = session()
    fetches.move((ORDERS, 0), at(10))
    fetches.move((CLICKS, 2), at(0, last_epoch=-1))
    request = fetches.request()
    assert (request.replica_id, request.broker_epoch) == (3, 7)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert asked(request) == {(ORDERS, 0): (4, 10, 4), (CLICKS, 2): (4, 0, -1)}


def test_later_fetches_name_what_moved() -> None:
    fetches = session()
    fetches.move((ORDERS, 0), at(10))
    fetches.move((ORDERS, 1), at(20))
    fetches.request()
    fetches.hear(answer(99, FetchedPartition(0, 0, 12, 0, b"records")))
    fetches.move((ORDERS, 0), at(12))
    fetches.move((ORDERS, 1), at(20))
    request = fetches.request()
    assert (request.session_id, request.session_epoch) == (99, 1)
    assert asked(request) == {(ORDERS, 0): (4, 12, 4)}
    fetches.hear(answer(99))
    nothing_moved = fetches.request()
    assert nothing_moved.session_epoch == 2
    assert asked(nothing_moved) == {}


def test_what_is_not_followed_any_more_is_forgotten_once() -> None:
    fetches = session()
    fetches.move((ORDERS, 0), at(10))
    fetches.move((ORDERS, 1), at(20))
    fetches.request()
    fetches.hear(answer(99))
    fetches.move((ORDERS, 1), None)
    assert forgotten(fetches.request()) == {(ORDERS, 1)}
    fetches.hear(answer(99))
    assert forgotten(fetches.request()) == set()
    assert len(fetches) == 1


def test_a_partition_that_left_and_came_back_between_two_fetches_is_asked_where_it_now_stands() -> None:
    fetches = session()
    fetches.move((ORDERS, 0), at(10))
    fetches.request()
    fetches.hear(answer(99))
    fetches.move((ORDERS, 0), None)
    fetches.move((ORDERS, 0), at(10, leader_epoch=5))
    request = fetches.request()
    assert asked(request) == {(ORDERS, 0): (5, 10, 4)}
    assert forgotten(request) == set()


@pytest.mark.parametrize(
    "error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH]
)
def test_a_forgotten_session_begins_anew(error: ErrorCode) -> None:
    fetches = session()
    fetches.move((ORDERS, 0), at(10))
    fetches.request()
    fetches.hear(answer(99))
    fetches.request()
    assert fetches.hear(answer(0, error=error)) == []
    request = fetches.request()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert asked(request) == {(ORDERS, 0): (4, 10, 4)}


def test_a_peer_without_sessions_is_asked_everything_each_time() -> None:
    fetches = session()
    fetches.move((ORDERS, 0), at(10))
    for _ in range(2):
        request = fetches.request()
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert asked(request) == {(ORDERS, 0): (4, 10, 4)}
        fetches.hear(answer(0))


def test_more_partitions_than_one_frame_may_hold_are_named_and_forgotten_in_several() -> None:
    """The door refuses a frame of more elements, and a follower that is refused follows nothing at all."""
    fetches = session()
    everything = [(UUID(int=number), 0) for number in range(1, MOST_NAMED + 5)]

    def next_frames() -> tuple[set[tuple[UUID, int]], list[int]]:
        named: set[tuple[UUID, int]] = set()
        waits = []
        for number in range(2):
            frame = memoryview(fetch_frame(number, "ben", fetches.request()))[4:]
            request = read_fetch(read_request_header(frame), frame, FOLLOWERS_ELEMENTS)
            named |= asked(request).keys() | forgotten(request)
            waits.append(request.max_wait_ms)
            fetches.hear(answer(99))
        return named, waits

    for position in (at(10), None):
        for key in everything:
            fetches.move(key, position)
        assert next_frames() == (set(everything), [0, 500])
    assert asked(fetches.request()) == {}


def test_an_answer_comes_with_the_position_it_answers() -> None:
    fetches = session()
    fetches.move((ORDERS, 0), at(10))
    fetches.request()
    fetches.move((ORDERS, 0), at(10, leader_epoch=5))
    heard = fetches.hear(
        answer(99, FetchedPartition(0, 0, 12, 0, b"records"), FetchedPartition(7, 0, 1, 0, b"not asked for"))
    )
    assert heard == [FetchedAnswer((ORDERS, 0), at(10), 0, 12, 0, None, memoryview(b"records"))]


def test_a_diverging_answer_says_where() -> None:
    fetches = session()
    fetches.move((ORDERS, 0), at(10))
    fetches.request()
    (heard,) = fetches.hear(answer(99, FetchedPartition(0, 0, 5, 0, None, Diverging(3, 6))))
    assert heard.diverging == EpochEnd(3, 6)
    assert not heard.records


def test_any_other_error_of_a_whole_fetch_is_a_refusal() -> None:
    fetches = session()
    fetches.request()
    with pytest.raises(FetchRefused, match="error 42"):
        fetches.hear(answer(0, error=ErrorCode.INVALID_REQUEST))
