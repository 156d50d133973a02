"""A frame's length is judged before anything is allocated, and a header is read or refused, never guessed."""

import struct
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kafkawire.api_table import (
    SERVED,
    Api,
    ApiKey,
    encode_request,
    read_request,
    read_request_header,
    request_class,
)
from muster.kafkawire.errors import FrameTooLarge, KafkaWireError, MalformedFrame, UnsupportedRequest
from muster.kafkawire.framing import frame_bytes
from muster.kafkawire.numbers import read_uvarint, uvarint


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


@pytest.mark.parametrize(("key", "version"), [(ApiKey.PRODUCE, 2), (ApiKey.PRODUCE, 13), (ApiKey.FETCH, 3)])
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
