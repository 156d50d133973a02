"""The reader of heartbeats understands what kio understands, and refuses what breaks the language."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from muster.kafkawire.api_table import (
    ApiKey,
    build,
    encode_request,
    read_body,
    read_request,
    read_request_header,
    reply_body_start,
    request_class,
    response_class,
)
from muster.kafkawire.errors import KafkaWireError
from muster.kafkawire.heartbeats import HeartbeatRequest, heartbeat_answer, read_heartbeat

VERSIONS = range(5)
names = some.text(max_size=40)


def asked(version: int, **fields: Any) -> memoryview:
    body = build(request_class(ApiKey.HEARTBEAT, version), **fields)
    return memoryview(encode_request(ApiKey.HEARTBEAT, version, 7, "ann", body)[4:])


@given(some.sampled_from(VERSIONS), names, some.integers(-1, 2**31 - 1), names, some.none() | names)
def test_a_heartbeat_is_read_as_kio_reads_it(
    version: int, group: str, generation: int, member: str, instance: str | None
) -> None:
    question = asked(
        version, group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
    )
    header = read_request_header(question)
    read = read_heartbeat(header, question)
    by_kio = read_request(header, question)
    assert read == HeartbeatRequest(
        by_kio.group_id,
        by_kio.generation_id,
        by_kio.member_id,
        getattr(by_kio, "group_instance_id", None),
    )


@given(some.sampled_from(VERSIONS), some.data())
def test_a_broken_heartbeat_is_refused_as_kio_refuses_it(version: int, data: Any) -> None:
    whole = bytes(asked(version, group_id="orders", generation_id=3, member_id="ann", group_instance_id=None))
    place = data.draw(some.integers(15, len(whole) - 1))
    changed = data.draw(
        some.sampled_from([whole[:place], whole[:place] + b"\xff" + whole[place + 1 :], whole + b"x"])
    )
    frame = memoryview(changed)
    try:
        header = read_request_header(frame)
    except KafkaWireError:
        return
    try:
        by_kio = read_request(header, frame)
    except KafkaWireError:
        with pytest.raises(KafkaWireError):
            read_heartbeat(header, frame)
    else:
        assert read_heartbeat(header, frame).member_id == by_kio.member_id


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_worded_as_kio_would(version: int) -> None:
    question = asked(version, group_id="orders", generation_id=3, member_id="ann", group_instance_id=None)
    answer = heartbeat_answer(version, read_request_header(question).correlation_id, 27)[4:]
    start = reply_body_start(ApiKey.HEARTBEAT, version, answer)
    assert int(read_body(response_class(ApiKey.HEARTBEAT, version), answer, start).error_code) == 27
