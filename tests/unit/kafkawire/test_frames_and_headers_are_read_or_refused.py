"""A frame's length is judged before anything is allocated, and a header is read or refused, never guessed."""

import struct
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kafkawire.api_table import (
    SERVED,
    Api,
    ApiKey,
    build,
    encode_request,
    part,
    read_request,
    read_request_header,
    request_class,
    response_class,
    shapes_loaded,
)
from muster.kafkawire.bounds import walk_of
from muster.kafkawire.errors import FrameTooLarge, KafkaWireError, MalformedFrame, UnsupportedRequest
from muster.kafkawire.framing import frame_bytes
from muster.kafkawire.numbers import read_uvarint, uvarint
from muster.kafkawire.produce import read_produce


@pytest.mark.parametrize("length", [-1, -(2**31), 1_001, 2**31 - 1])
def test_a_length_outside_the_limit_is_refused(length: int) -> None:
    with pytest.raises(FrameTooLarge):
        frame_bytes(struct.pack(">i", length), 0, limit_bytes=1_000)


def test_a_frame_too_small_for_a_header_is_refused() -> None:
    with pytest.raises(MalformedFrame):
        frame_bytes(struct.pack(">i", 7), 0, 1_000, smallest_bytes=8)


def test_a_good_length_is_told() -> None:
    assert frame_bytes(b"\xff\x00\x00\x03\xe8", 1, 1_000) == 1_000


def test_an_unknown_api_key_is_unsupported() -> None:
    with pytest.raises(UnsupportedRequest):
        read_request_header(struct.pack(">hhih", 999, 0, 1, -1))


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.PRODUCE, 2),
        (ApiKey.PRODUCE, 13),
        (ApiKey.FETCH, 3),
        (ApiKey.OFFSET_COMMIT, 1),
        (ApiKey.OFFSET_COMMIT, 10),
        (ApiKey.OFFSET_FETCH, 0),
        (ApiKey.OFFSET_FETCH, 10),
    ],
)
def test_a_version_outside_the_table_is_unsupported(key: ApiKey, version: int) -> None:
    with pytest.raises(UnsupportedRequest):
        read_request_header(struct.pack(">hhih", key, version, 1, -1))


def test_any_version_of_api_versions_passes_because_its_answer_says_what_is_served() -> None:
    header = read_request_header(struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1))
    assert (header.api_version, header.correlation_id) == (99, 7)


def test_produce_is_advertised_from_version_0_and_understood_from_3() -> None:
    """Conformance E3: librdkafka compresses nothing for a broker whose minimum is not 0."""
    produce = SERVED[ApiKey.PRODUCE]
    assert (produce.advertised_minimum, produce.minimum) == (0, 3)


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.key.name)
def test_every_advertised_version_has_a_schema(api: Api) -> None:
    for version in range(api.minimum, api.maximum + 1):
        shape = request_class(api.key, version)
        assert shape.__flexible__ == (version >= api.first_flexible)


@given(st.binary(max_size=64))
def test_only_declared_errors_leave_the_header_reader(frame: bytes) -> None:
    try:
        header = read_request_header(frame)
    except KafkaWireError:
        return
    assert header.body_start <= len(frame)


@given(
    st.sampled_from([api for api in SERVED.values() if api.key is not ApiKey.PRODUCE]),
    st.data(),
    st.binary(max_size=200),
)
def test_only_declared_errors_leave_the_body_reader(api: Api, data: st.DataObject, body: bytes) -> None:
    version = data.draw(st.integers(api.minimum, api.maximum))
    tags = b"\x00" if version >= api.first_flexible else b""
    frame = struct.pack(">hhih", api.key, version, 1, -1) + tags + body
    header = read_request_header(frame)
    try:
        read_request(header, frame)
    except KafkaWireError:
        return


@given(st.integers(0, 2**32 - 1))
def test_unsigned_numbers_come_back(value: int) -> None:
    encoded = uvarint(value)
    assert read_uvarint(encoded, 0) == (value, len(encoded))


def test_a_promise_of_two_billion_topics_is_refused_and_nothing_is_reserved_for_it() -> None:
    """kio alone would abort the process here, without an exception."""
    frame = struct.pack(">hhihi", ApiKey.METADATA, 1, 1, -1, 2**31 - 1)
    with pytest.raises(MalformedFrame):
        read_request(read_request_header(frame), frame)


def test_only_produce_may_be_large() -> None:
    body = bytes(2 * 1024 * 1024)
    read_request_header(struct.pack(">hhih", ApiKey.PRODUCE, 3, 1, -1) + body)
    with pytest.raises(FrameTooLarge):
        read_request_header(struct.pack(">hhih", ApiKey.METADATA, 1, 1, -1) + body)


def test_a_request_that_was_encoded_is_read_back() -> None:
    shape = request_class(ApiKey.INIT_PRODUCER_ID, 4)
    body = shape(transactional_id=None, transaction_timeout=timedelta(0))
    frame = encode_request(ApiKey.INIT_PRODUCER_ID, 4, 5, "ann", body)[4:]
    header = read_request_header(frame)
    assert (header.client_id, header.correlation_id) == ("ann", 5)
    assert read_request(header, frame) == body


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.key.name)
def test_every_served_request_can_be_walked(api: Api) -> None:
    for version in range(api.minimum, api.maximum + 1):
        walk_of(request_class(api.key, version))


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (ApiKey.FETCH, 4, struct.pack(">iiiibi", -1, 0, 0, 0, 0, -1)),
        (ApiKey.LIST_OFFSETS, 1, struct.pack(">ii", -1, -1)),
        (ApiKey.CREATE_TOPICS, 2, struct.pack(">iib", -1, 0, 0)),
        (ApiKey.CREATE_TOPICS, 2, struct.pack(">ihihiiib", 1, -1, 1, 1, 0, 0, 0, 0)),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, struct.pack(">i", -1)),
        (ApiKey.FETCH, 12, struct.pack(">iiiibiiBBB", -1, 0, 0, 0, 0, 0, -1, 0, 1, 1) + b"\x00"),
    ],
)
def test_null_where_the_schema_knows_none_is_refused(key: int, version: int, body: bytes) -> None:
    tags = b"\x00" if version >= SERVED[key].first_flexible else b""
    frame = struct.pack(">hhih", key, version, 1, -1) + tags + body
    with pytest.raises(MalformedFrame):
        read_request(read_request_header(frame), frame)


def test_a_null_array_that_has_a_meaning_is_read() -> None:
    frame = struct.pack(">hhihi", ApiKey.METADATA, 1, 1, -1, -1)
    assert read_request(read_request_header(frame), frame).topics is None


def test_more_elements_than_a_request_may_have_are_refused_before_one_is_built() -> None:
    most = SERVED[ApiKey.LIST_OFFSETS].limit_elements
    head = struct.pack(">hhihiih1s", ApiKey.LIST_OFFSETS, 1, 1, -1, -1, 1, 1, b"x")
    frame = head + struct.pack(">i", most - 1) + struct.pack(">iq", 0, -1) * (most - 1)
    assert len(read_request(read_request_header(frame), frame).topics[0].partitions) == most - 1
    frame = head + struct.pack(">i", most) + struct.pack(">iq", 0, -1) * most
    with pytest.raises(FrameTooLarge):
        read_request(read_request_header(frame), frame)


MOST_ENTRIES = {
    ApiKey.CREATE_TOPICS: 6_250,
    ApiKey.DELETE_TOPICS: 5_000,
    ApiKey.CREATE_PARTITIONS: 5_000,
    ApiKey.ALTER_CONFIGS: 6_250,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 6_250,
}


@pytest.mark.parametrize("key", MOST_ENTRIES)
def test_what_is_answered_one_by_one_is_refused_before_that_holds_the_loop(key: ApiKey) -> None:
    most = MOST_ENTRIES[key]
    assert read_request_of(key, most)
    with pytest.raises(FrameTooLarge):
        read_request_of(key, most + 1)


def read_request_of(key: ApiKey, entries: int) -> Any:
    """So many topics, or resources, that say nothing else, in the oldest version."""
    version = SERVED[key].minimum
    entry = {
        # Name, partitions, factor; no assignments, no configs.
        ApiKey.CREATE_TOPICS: struct.pack(">h1sihii", 1, b"x", 1, 1, 0, 0),
        ApiKey.DELETE_TOPICS: struct.pack(">h1s", 1, b"x"),
        # Name, count; no assignments.
        ApiKey.CREATE_PARTITIONS: struct.pack(">h1sii", 1, b"x", 1, -1),
    }.get(key, struct.pack(">bh1si", 2, 1, b"x", 0))
    timeout = b"" if key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS) else struct.pack(">i", 1)
    validate_only = b"" if key == ApiKey.DELETE_TOPICS else b"\x00"
    head = struct.pack(">hhih", key, version, 1, -1) + struct.pack(">i", entries)
    frame = head + entry * entries + timeout + validate_only
    return read_request(read_request_header(frame), frame)


def test_the_replicas_of_one_topic_may_be_as_many_as_it_has() -> None:
    partitions = 10_000
    head = struct.pack(">hhihi", ApiKey.CREATE_TOPICS, 2, 1, -1, 1)
    topic = struct.pack(">h1sihi", 1, b"x", -1, -1, partitions)
    assigned = b"".join(struct.pack(">iiiii", number, 3, 1, 2, 3) for number in range(partitions))
    frame = head + topic + assigned + struct.pack(">ii", 0, 1) + b"\x00"
    (read,) = read_request(read_request_header(frame), frame).topics
    assert len(read.assignments) == partitions


def test_five_million_empty_parts_of_a_produce_are_refused_before_one_is_built() -> None:
    head = struct.pack(">hhih", ApiKey.PRODUCE, 3, 1, -1) + struct.pack(">hhiih1s", -1, 1, 1000, 1, 1, b"x")
    frame = head + struct.pack(">i", 5_000_000) + bytes(40_000_000)
    with pytest.raises(FrameTooLarge):
        read_produce(read_request_header(frame), memoryview(frame))


def test_a_field_that_no_version_has_is_a_mistake_and_one_of_another_version_is_left_out() -> None:
    shape = response_class(ApiKey.PRODUCE, 3)
    answer = part(shape, "PartitionProduceResponse")
    built = build(answer, index=1, error_code=0, base_offset=5, log_start_offset=3, error_message="why")
    assert built.base_offset == 5
    with pytest.raises(TypeError, match="log_start_ofset"):
        build(answer, index=1, error_code=0, base_offset=5, log_start_ofset=3)


def test_one_shape_of_each_request_is_loaded_ahead() -> None:
    """Sixty of them, one for each version, are six megabytes in every idle broker."""
    assert len(list(shapes_loaded())) == len(SERVED)
