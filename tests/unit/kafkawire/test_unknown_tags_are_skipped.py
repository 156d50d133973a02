"""What newer clients say in tagged fields that are not known here is passed over (conformance E4)."""

import struct
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin

import pytest

from muster.kafkawire.api_table import (
    SERVED,
    ApiKey,
    RequestHeader,
    read_request,
    read_request_header,
    request_class,
)
from muster.kafkawire.bounds import MOST_TAGS
from muster.kafkawire.errors import FrameTooLarge, MalformedFrame
from muster.kafkawire.fetch_requests import read_fetch
from muster.kafkawire.heartbeats import read_heartbeat
from muster.kafkawire.numbers import uvarint
from muster.kafkawire.offset_commits import read_offset_commit
from muster.kafkawire.produce import read_produce

NO_TAGS = b"\0"
UNKNOWN_TAGS = b"\x02" + b"\x63\x02hi" + b"\xe8\x07\x00"
"""Two fields, 99 and 1000; the second is empty."""

FLEXIBLE = [
    (api.key, version)
    for api in SERVED.values()
    for version in range(max(api.minimum, api.first_flexible), api.maximum + 1)
]
BY_HAND: dict[int, Any] = {
    ApiKey.FETCH: read_fetch,
    ApiKey.PRODUCE: read_produce,
    ApiKey.HEARTBEAT: read_heartbeat,
    ApiKey.OFFSET_COMMIT: read_offset_commit,
}
FIXED = {
    **{"bool": 1, "int8": 1, "int16": 2, "error_code": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16},
    **{"timedelta_i32": 4, "timedelta_i64": 8, "datetime_i64": 8},
}


def written(shape: Any, tags: bytes) -> bytes:
    """Some instance of kio's class: two elements in each array, and `tags` behind each part of it."""
    untagged = (field for field in fields(shape) if "tag" not in field.metadata)
    return b"".join(value_of(one.type, one.metadata.get("kafka_type"), tags) for one in untagged) + tags


def value_of(annotation: Any, kafka_type: str | None, tags: bytes) -> bytes:
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    if get_origin(annotation) is tuple:
        return b"\x03" + value_of(kinds[0], kafka_type, tags) * 2
    if kinds and not isinstance(annotation, type):
        return value_of(kinds[0], kafka_type, tags)
    if is_dataclass(annotation):
        return written(annotation, tags)
    return bytes(FIXED[kafka_type]) if kafka_type in FIXED else b"\x03ab"


def frame(
    key: ApiKey, version: int, tags: bytes, body: bytes | None = None
) -> tuple[RequestHeader, memoryview]:
    header = struct.pack(">hhih", key, version, 7, 3) + b"ann" + tags
    whole = memoryview(header + (written(request_class(key, version), tags) if body is None else body))
    return read_request_header(whole), whole


@pytest.mark.parametrize(("key", "version"), FLEXIBLE)
def test_a_request_with_them_says_what_it_says_without(key: ApiKey, version: int) -> None:
    plain = read_request(*frame(key, version, NO_TAGS))
    assert read_request(*frame(key, version, UNKNOWN_TAGS)) == plain


@pytest.mark.parametrize(("key", "version"), [one for one in FLEXIBLE if one[0] in BY_HAND])
def test_so_does_one_that_is_read_by_hand(key: ApiKey, version: int) -> None:
    read = BY_HAND[key]
    assert read(*frame(key, version, UNKNOWN_TAGS)) == read(*frame(key, version, NO_TAGS))


def test_known_ones_are_read_beside_and_around_them() -> None:
    """Who fetches, and its broker epoch, are a tagged field with a place for tags of its own."""
    known = struct.pack(">iq", 2, 5) + UNKNOWN_TAGS
    tags = b"\x03" + b"\x01" + uvarint(len(known)) + known + UNKNOWN_TAGS[1:]
    shape = request_class(ApiKey.FETCH, 16)
    body = written(shape, NO_TAGS)[:-1]
    header, whole = frame(ApiKey.FETCH, 16, NO_TAGS, body + tags)
    state = read_request(header, whole).replica_state
    assert (state.replica_id, state.replica_epoch) == (2, 5)
    assert read_fetch(header, whole)[:2] == (2, 5)


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.PRODUCE])
@pytest.mark.parametrize(
    "tags", [b"\x01\x63\x7fhi", b"\x01\x63", b"\x02\x63\x02hi"], ids=["long", "cut", "few"]
)
def test_one_that_ends_behind_the_frame_is_malformed(key: ApiKey, tags: bytes) -> None:
    version = SERVED[key].maximum
    body = written(request_class(key, version), NO_TAGS)[:-1] + tags
    header, whole = frame(key, version, NO_TAGS, body)
    with pytest.raises(MalformedFrame):
        BY_HAND[key](header, whole) if key in BY_HAND else read_request(header, whole)


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.HEARTBEAT])
def test_there_are_no_more_of_them_than_a_loop_may_pass_over(key: ApiKey) -> None:
    version, many = SERVED[key].maximum, MOST_TAGS + 1
    tags = uvarint(many) + b"\x63\x00" * many
    with pytest.raises(FrameTooLarge):
        frame(key, version, tags)
    body = written(request_class(key, version), NO_TAGS)[:-1] + tags
    header, whole = frame(key, version, NO_TAGS, body)
    with pytest.raises(FrameTooLarge):
        BY_HAND[key](header, whole) if key in BY_HAND else read_request(header, whole)
