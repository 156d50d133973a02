"""Fetch requests are read as kio reads them, in every version, and a follower's are written as kio would."""

import struct
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kafkawire.api_table import (
    SERVED,
    ApiKey,
    build,
    encode_request,
    part,
    read_request,
    read_request_header,
    request_class,
)
from muster.kafkawire.errors import FrameTooLarge, KafkaWireError, MalformedFrame
from muster.kafkawire.fetch_requests import (
    NO_TOPIC_ID,
    AskedPartition,
    AskedTopic,
    FetchRequest,
    ForgottenTopic,
    fetch_frame,
    read_fetch,
)

VERSIONS: Final = range(4, 17)
FOLLOWERS: Final = 16
ORDERS, CLICKS = UUID(int=7), UUID(int=8)

_int = st.integers(-1, 2**31 - 1)
_long = st.integers(-1, 2**63 - 1)
_asked = st.builds(AskedPartition, _int, _int, _long, _int, _long, _int)
_ids = st.sampled_from((ORDERS, CLICKS))
_requests = st.builds(
    FetchRequest,
    st.integers(-1, 9_999),
    _long,
    st.integers(0, 2**31 - 1),
    _int,
    _int,
    st.integers(0, 2**31 - 1),
    _int,
    st.lists(st.builds(AskedTopic, st.text(max_size=20), _ids, st.lists(_asked, max_size=3)), max_size=3),
    st.lists(st.builds(ForgottenTopic, st.text(max_size=20), _ids, st.lists(_int, max_size=3)), max_size=3),
    st.text(max_size=20),
)


def _of_kio(version: int, request: FetchRequest) -> Any:
    shape = request_class(ApiKey.FETCH, version)
    topics = tuple(
        build(
            part(shape, "FetchTopic"),
            topic=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                build(
                    part(shape, "FetchPartition"),
                    partition=one.partition,
                    fetch_offset=one.offset,
                    partition_max_bytes=one.max_bytes,
                    current_leader_epoch=one.leader_epoch,
                    last_fetched_epoch=one.last_epoch,
                    log_start_offset=one.start_offset,
                )
                for one in topic.partitions
            ),
        )
        for topic in request.topics
    )
    more: dict[str, Any] = {"replica_id": request.replica_id}
    if version >= 15:
        state = part(shape, "ReplicaState")
        more = {"replica_state": state(replica_id=request.replica_id, replica_epoch=request.broker_epoch)}
    if version >= 7:
        more["forgotten_topics_data"] = tuple(
            build(
                part(shape, "ForgottenTopic"),
                topic=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(topic.partitions),
            )
            for topic in request.forgotten
        )
    return build(
        shape,
        max_wait=timedelta(milliseconds=request.max_wait_ms),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=0,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        topics=topics,
        rack_id=request.rack_id,
        **more,
    )


def _frame(version: int, request: FetchRequest) -> bytes:
    return encode_request(ApiKey.FETCH, version, 1, "ann", _of_kio(version, request))[4:]


def _read(frame: bytes, **limit: int) -> FetchRequest:
    return read_fetch(read_request_header(frame), memoryview(frame), **limit)


def _read_by_kio(version: int, body: Any) -> FetchRequest:
    """What kio read, in our words; what a version does not have is as if nobody had stated it."""

    def named(topic: Any) -> tuple[str, UUID]:
        return ("", topic.topic_id or NO_TOPIC_ID) if version >= 13 else (topic.topic, NO_TOPIC_ID)

    state = body.replica_state if version >= 15 else None
    return FetchRequest(
        body.replica_id if state is None else state.replica_id,
        -1 if state is None else state.replica_epoch,
        body.max_wait // timedelta(milliseconds=1),
        body.min_bytes,
        body.max_bytes,
        body.session_id if version >= 7 else 0,
        body.session_epoch if version >= 7 else -1,
        [
            AskedTopic(
                *named(topic),
                [
                    AskedPartition(
                        one.partition,
                        one.current_leader_epoch if version >= 9 else -1,
                        one.fetch_offset,
                        one.last_fetched_epoch if version >= 12 else -1,
                        one.log_start_offset if version >= 5 else -1,
                        one.partition_max_bytes,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in body.topics
        ],
        [ForgottenTopic(*named(topic), list(topic.partitions)) for topic in body.forgotten_topics_data]
        if version >= 7
        else [],
        body.rack_id if version >= 11 else "",
    )


@given(st.sampled_from(VERSIONS), _requests)
def test_what_kio_writes_is_read(version: int, request: FetchRequest) -> None:
    frame = _frame(version, request)
    body = read_request(read_request_header(frame), frame)
    assert _read(frame) == _read_by_kio(version, body)


def test_a_session_may_forget_a_topic_of_a_long_name_and_ask_for_none() -> None:
    """What lies where one topic's name would is another length then, and no text."""
    forgotten = [ForgottenTopic("o" * 200, NO_TOPIC_ID, [0, 1])] * 3
    request = FetchRequest(-1, -1, 500, 1, 1_000_000, 7, 2, [], forgotten, "")
    assert _read(_frame(12, request)) == request


@given(_requests)
def test_a_followers_request_is_written_as_kio_would(request: FetchRequest) -> None:
    by_kio = encode_request(ApiKey.FETCH, FOLLOWERS, 5, "broker-3", _of_kio(FOLLOWERS, request))
    frame = fetch_frame(5, "broker-3", request)
    if (request.replica_id, request.broker_epoch) == (-1, -1):
        # kio leaves out what says nothing.
        assert _read(frame[4:]) == _read(by_kio[4:])
    else:
        assert frame == by_kio


FIRST, SECOND = AskedPartition(0, 4, 5, 3, 1, 100), AskedPartition(1, -1, 6, -1, -1, 100)
WHOLE = FetchRequest(
    2,
    5,
    500,
    1,
    1_000,
    77,
    3,
    [AskedTopic("orders", ORDERS, [FIRST, SECOND])],
    [ForgottenTopic("clicks", CLICKS, [4, 5])],
    "north",
)


LONE = WHOLE._replace(
    replica_id=-1, broker_epoch=-1, topics=[AskedTopic("orders", ORDERS, [FIRST])], forgotten=[]
)
"""What most consumers ask; it is read in few steps."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "request_",
    [
        LONE,
        LONE._replace(rack_id=""),
        LONE._replace(rack_id="n" * 126),
        LONE._replace(rack_id="n" * 127),
        LONE._replace(topics=[AskedTopic("o" * 126, ORDERS, [FIRST])]),
        LONE._replace(topics=[AskedTopic("o" * 127, ORDERS, [FIRST])]),
        LONE._replace(replica_id=2, broker_epoch=5),
        LONE._replace(forgotten=[ForgottenTopic("clicks", CLICKS, [])]),
    ],
    ids=[
        "on a rack",
        "anywhere",
        "on a long rack",
        "on a longer one",
        "long",
        "longer",
        "follower",
        "forgets",
    ],
)
def test_one_partition_is_read_as_kio_reads_it(version: int, request_: FetchRequest) -> None:
    frame = _frame(version, request_)
    body = read_request(read_request_header(frame), frame)
    assert _read(frame) == _read_by_kio(version, body)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("asked", [LONE, WHOLE], ids=["one partition", "more"])
def test_a_frame_that_ends_anywhere_inside_is_malformed(version: int, asked: FetchRequest) -> None:
    frame = _frame(version, asked)
    header = read_request_header(frame)
    for end in range(header.body_start, len(frame)):
        with pytest.raises(MalformedFrame):
            read_fetch(header, memoryview(frame[:end]))


def test_a_promised_array_of_two_billion_elements_is_refused_at_once() -> None:
    frame = struct.pack(">hhihiiiibi", ApiKey.FETCH, 4, 1, -1, -1, 500, 1, 1_000, 0, 2**31 - 1)
    with pytest.raises(MalformedFrame):
        _read(frame)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_arrays_together_have_no_more_elements_than_the_door_takes(version: int) -> None:
    most = 5 if version >= 7 else 3
    frame = _frame(version, WHOLE)
    shown = _read(frame, limit_elements=most + 1 if version >= 7 else most)
    assert len(shown.topics[0].partitions) == 2
    with pytest.raises(FrameTooLarge):
        _read(frame, limit_elements=2)


def test_tags_that_nobody_knows_are_skipped_at_every_place() -> None:
    tagged = b"\x01\x63\x02hi"
    head = struct.pack(">hhih", ApiKey.FETCH, 16, 1, -1) + b"\0"
    limits = struct.pack(">iiibii", 500, 1, 1_000, 0, 77, 3)
    first, second = struct.pack(">iiqiqi", *FIRST) + tagged, struct.pack(">iiqiqi", *SECOND) + b"\0"
    topics = b"\x02" + ORDERS.bytes + b"\x03" + first + second + tagged
    forgotten = b"\x02" + CLICKS.bytes + b"\x03" + struct.pack(">ii", 4, 5) + tagged
    state = b"\x01\x11" + struct.pack(">iq", 2, 5) + tagged
    frame = head + limits + topics + forgotten + b"\x06north" + b"\x02" + state + b"\x63\x02hi"
    assert _read(frame) == WHOLE._replace(
        topics=[AskedTopic("", ORDERS, [FIRST, SECOND])], forgotten=[ForgottenTopic("", CLICKS, [4, 5])]
    )


@given(st.sampled_from(VERSIONS), st.binary(max_size=200))
def test_only_declared_errors_leave(version: int, body: bytes) -> None:
    tags = b"\x00" if version >= 12 else b""
    frame = struct.pack(">hhih", ApiKey.FETCH, version, 1, -1) + tags + body
    try:
        _read(frame)
    except KafkaWireError:
        return


@given(st.sampled_from(VERSIONS), st.data())
def test_a_broken_request_is_refused_as_kio_refuses_it(version: int, data: Any) -> None:
    whole = _frame(version, WHOLE)
    place = data.draw(st.integers(14, len(whole) - 1))
    byte = data.draw(st.sampled_from((b"\x00", b"\x01", b"\x03", b"\x7f", b"\xff")))
    cut = data.draw(st.sampled_from((whole[:place], whole[:place] + byte + whole[place + 1 :])))
    header = read_request_header(cut)
    try:
        by_kio = read_request(header, cut)
    except KafkaWireError:
        with pytest.raises(KafkaWireError):
            read_fetch(header, memoryview(cut))
        return
    assert read_fetch(header, memoryview(cut)) == _read_by_kio(version, by_kio)


def test_the_door_takes_as_many_elements_as_the_table_says() -> None:
    limit = SERVED[ApiKey.FETCH].limit_elements
    too_many = WHOLE._replace(topics=[AskedTopic("", ORDERS, [SECOND] * limit)])
    with pytest.raises(FrameTooLarge):
        _read(_frame(16, too_many))
