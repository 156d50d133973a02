"""Offset commits are read as kio reads them, broken ones refused, and answered as kio would write it."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from muster.kafkawire.api_table import (
    ApiKey,
    build,
    encode_reply,
    encode_request,
    part,
    read_request,
    read_request_header,
    request_class,
    response_class,
)
from muster.kafkawire.errors import FrameTooLarge, KafkaWireError
from muster.kafkawire.offset_commits import offset_commit_answer, read_offset_commit
from muster.kafkawire.patterns import Pattern

KEY = ApiKey.OFFSET_COMMIT
VERSIONS = range(2, 10)
names = some.text(max_size=200)
positions = some.lists(
    some.tuples(
        some.integers(-(2**31), 2**31 - 1),
        some.integers(-(2**63), 2**63 - 1),
        some.integers(-1, 2**31 - 1),
        some.none() | names,
    ),
    max_size=3,
)
asked_topics = some.lists(some.tuples(names, positions), max_size=3)


def frame_of(version: int, topics: Any, **who: Any) -> memoryview:
    shape = request_class(KEY, version)
    topic, position = (part(shape, f"OffsetCommitRequest{name}") for name in ("Topic", "Partition"))
    body = build(
        shape,
        group_id=who.get("group", "readers"),
        generation_id_or_member_epoch=who.get("generation", 3),
        member_id=who.get("member", "ann"),
        group_instance_id=who.get("instance"),
        retention_time=timedelta(milliseconds=who.get("retention_ms", -1)),
        topics=tuple(
            build(
                topic,
                name=name,
                partitions=tuple(
                    build(
                        position,
                        partition_index=number,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        committed_metadata=metadata,
                    )
                    for number, offset, epoch, metadata in partitions
                ),
            )
            for name, partitions in topics
        ),
    )
    return memoryview(encode_request(KEY, version, 7, "ann", body)[4:])


def as_kio_reads(frame: memoryview) -> Any:
    by_kio = read_request(read_request_header(frame), frame)
    retention = getattr(by_kio, "retention_time", timedelta(milliseconds=-1))
    topics = [
        (
            topic.name,
            [
                (
                    one.partition_index,
                    one.committed_offset,
                    getattr(one, "committed_leader_epoch", -1),
                    one.committed_metadata or "",
                )
                for one in topic.partitions
            ],
        )
        for topic in by_kio.topics
    ]
    return (
        by_kio.group_id,
        by_kio.generation_id_or_member_epoch,
        by_kio.member_id,
        getattr(by_kio, "group_instance_id", None),
        retention // timedelta(milliseconds=1),
        topics,
    )


@given(
    some.sampled_from(VERSIONS), asked_topics, names, names, some.none() | names, some.integers(-1, 10**12)
)
def test_a_commit_is_read_as_kio_reads_it(
    version: int, topics: Any, group: str, member: str, instance: str | None, retention_ms: int
) -> None:
    who = {"group": group, "member": member, "instance": instance, "retention_ms": retention_ms}
    frame = frame_of(version, topics, **who)
    assert read_offset_commit(read_request_header(frame), frame) == as_kio_reads(frame)


@given(some.sampled_from(VERSIONS), asked_topics, names, some.integers(-(2**63), 2**63 - 1))
def test_of_a_commit_that_is_said_again_only_the_offsets_are_read(
    version: int, topics: Any, member: str, offset: int
) -> None:
    frame, places = frame_of(version, topics, member=member), list[int]()
    header = read_request_header(frame)
    read_offset_commit(header, frame, places)
    pattern = Pattern(bytes(frame[header.body_start :]), places)
    others = [
        (name, [(number, offset, epoch, note) for number, _, epoch, note in partitions])
        for name, partitions in topics
    ]
    again = frame_of(version, others, member=member)
    stated = tuple(offset for _, partitions in others for _ in partitions)
    assert pattern.numbers_in(again[header.body_start :]) == stated
    assert pattern.numbers_in(again, header.body_start) == stated
    assert pattern.numbers_in(bytes(again), header.body_start) == stated
    assert pattern.numbers_in(frame_of(version, others, member=member + "x")[header.body_start :]) is None


@given(some.sampled_from(VERSIONS), asked_topics, some.data())
def test_whatever_else_is_different_is_another_commit(version: int, topics: Any, data: Any) -> None:
    frame, places = frame_of(version, topics), list[int]()
    header = read_request_header(frame)
    read_offset_commit(header, frame, places)
    said = bytearray(frame[header.body_start :])
    pattern = Pattern(bytes(said), places)
    offsets = {place + byte for place in places for byte in range(8)}
    said[place := data.draw(some.sampled_from([n for n in range(len(said)) if n not in offsets]))] ^= 1
    assert pattern.numbers_in(memoryview(said)) is None, place


@given(some.sampled_from(VERSIONS), some.data())
def test_a_broken_commit_is_refused_as_kio_refuses_it(version: int, data: Any) -> None:
    whole = bytes(frame_of(version, [("orders", [(1, 5, 2, "note"), (2, 5, 2, "")])]))
    place = data.draw(some.integers(15, len(whole) - 1))
    frame = memoryview(
        data.draw(some.sampled_from([whole[:place], whole[:place] + b"\xff" + whole[place + 1 :]]))
    )
    try:
        by_kio = as_kio_reads(frame)
    except KafkaWireError:
        with pytest.raises(KafkaWireError):
            read_offset_commit(read_request_header(frame), frame)
    else:
        assert read_offset_commit(read_request_header(frame), frame) == by_kio


def test_more_partitions_than_the_loop_serves_in_a_moment_are_refused() -> None:
    frame = frame_of(9, [("orders", [(number, 5, -1, "") for number in range(50_001)])])
    with pytest.raises(FrameTooLarge):
        read_offset_commit(read_request_header(frame), frame)


@given(some.sampled_from(VERSIONS), asked_topics, some.sampled_from((0, 22, 25, 27)))
def test_an_answer_is_written_as_kio_writes_it(version: int, topics: Any, error: int) -> None:
    frame = frame_of(version, topics)
    header = read_request_header(frame)
    shape = response_class(KEY, version)
    topic, one = (part(shape, f"OffsetCommitResponse{name}") for name in ("Topic", "Partition"))
    told = tuple(
        build(
            topic,
            name=name,
            partitions=tuple(build(one, partition_index=asked[0], error_code=error) for asked in partitions),
        )
        for name, partitions in topics
    )
    asked = read_offset_commit(header, frame).topics
    by_hand = offset_commit_answer(header, asked, error)
    assert by_hand == encode_reply(KEY, version, 7, build(shape, topics=told))
    errors = {(name, number): error for name, positions in asked for number, *_ in positions}
    assert offset_commit_answer(header, asked, errors) == by_hand
