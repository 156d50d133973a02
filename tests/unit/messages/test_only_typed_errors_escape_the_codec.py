"""Whatever a stranger sends, the codec answers with a message or with RemoteMessageError."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.kernel.error_codes import ErrorCode
from muster.messages import codec, limits
from muster.messages.errors import LocalMessageError, RemoteMessageError
from muster.messages.link.from_broker import BrokerPing
from muster.messages.member import (
    ClusterMetadataRequest,
    CommitOffsetsRequest,
    FromMember,
    LeaveRequest,
    PartitionOffset,
    PingRequest,
    PingResponse,
    RegisterConsumerRequest,
    TopicCount,
    TopicOffsets,
)

ORDERS = UUID(int=1)
REGISTER = RegisterConsumerRequest(
    correlation_id=1,
    group_id="readers",
    consumer_id="ann",
    token="t" * 43,
    topic_count=(TopicCount("orders", threads=2), TopicCount("click.*", is_pattern=True)),
    session_timeout_ms=10_000,
)
FRAMES = (
    REGISTER,
    ClusterMetadataRequest(correlation_id=1, group_id="readers"),
    PingResponse(
        consumer_id="ann",
        number=3,
        offset_info=(TopicOffsets("orders", ORDERS, (PartitionOffset(0, -1, 2),)),),
    ),
    LeaveRequest(correlation_id=2, consumer_id="ann"),
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)


def decoded(frame: str | bytes) -> FromMember | None:
    try:
        return codec.decode_from_member(frame)
    except RemoteMessageError as error:
        assert error.close_code in (1007, 1009)
        assert error.error_code in (ErrorCode.MALFORMED_FRAME, ErrorCode.FRAME_TOO_LARGE)
        return None


@given(st.binary(max_size=300) | st.text(max_size=300))
def test_any_bytes(frame: str | bytes) -> None:
    decoded(frame)


@pytest.mark.parametrize("name", ["readers", "ann", "orders", "click.*", "tests"])
def test_a_name_with_a_nul_is_malformed(name: str) -> None:
    frame = codec.encode(replace(REGISTER, client_id="tests")).decode()
    spoilt = frame.replace(f'"{name}"', f'"{name}\\u0000"')
    assert spoilt != frame
    with pytest.raises(RemoteMessageError) as refused:
        codec.decode_from_member(spoilt)
    assert refused.value.error_code is ErrorCode.MALFORMED_FRAME


@given(json_values)
def test_any_json(value: object) -> None:
    decoded(json.dumps(value))


@given(st.sampled_from(FRAMES), st.data())
def test_a_frame_with_one_field_replaced(frame: FromMember, data: st.DataObject) -> None:
    fields = json.loads(codec.encode(frame))
    name = data.draw(st.sampled_from(sorted(fields)))
    fields[name] = data.draw(json_values)
    decoded(json.dumps(fields))


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_what_was_encoded_is_decoded(frame: FromMember) -> None:
    assert codec.decode_from_member(codec.encode(frame)) == frame


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("consumer_id", ""),
        ("consumer_id", "a" * 250),
        ("group_id", "g" * 250),
        ("token", "short"),
        ("token", "t" * 129),
        ("topic_count", []),
        ("topic_count", [{"topic": "orders"}] * 1_001),
        ("topic_count", [{"topic": "orders", "threads": 0}]),
        ("session_timeout_ms", -1),
        ("session_timeout_ms", 2**31),
        ("auto_offset_reset", "sometimes"),
        ("unheard_of", 1),
        ("client_id", "c" * 1_025),
    ],
)
def test_limits_are_part_of_the_language(field: str, value: object) -> None:
    fields = json.loads(codec.encode(REGISTER)) | {field: value}
    assert decoded(json.dumps(fields)) is None


@pytest.mark.parametrize("kind", ["PingResponse", "StopFetcherResponse", "StartFetcherResponse"])
def test_a_code_that_a_member_states_is_one_of_16_bits(kind: str) -> None:
    key = {"number": 1} if kind == "PingResponse" else {"generation": 1, "version": 1}
    frame = {"type": kind, "consumer_id": "ann", **key}
    for code in (-(2**15), 2**15 - 1):
        assert decoded(json.dumps(frame | {"error_code": code})) is not None
    for code in (-(2**15) - 1, 2**15, 10**1_000):
        assert decoded(json.dumps(frame | {"error_code": code})) is None


@pytest.mark.parametrize("entry", [[0], [-1, 0, 0], [0, -2, 0], [0, 2**63, 0], [0, 0, 0, 0], [0, 0, "1"]])
def test_offsets_are_partition_offset_and_generation(entry: list[object]) -> None:
    frame = {
        "type": "CommitOffsets",
        "correlation_id": 1,
        "consumer_id": "ann",
        "offset_info": [{"topic": "orders", "topic_id": str(ORDERS), "partitions": [entry]}],
    }
    assert decoded(json.dumps(frame)) is None


def test_a_frame_above_the_limit_is_not_read() -> None:
    frame = b" " * (limits.FRAME_LIMIT_BYTES + 1)
    with pytest.raises(RemoteMessageError) as refused:
        codec.decode_from_member(frame)
    assert refused.value.error_code is ErrorCode.FRAME_TOO_LARGE
    assert refused.value.close_code == 1009


def test_the_limit_counts_bytes_not_characters() -> None:
    frame = " " * (limits.FRAME_LIMIT_BYTES // 3) + "\N{SNOWMAN}" * (limits.FRAME_LIMIT_BYTES // 3)
    assert len(frame) < limits.FRAME_LIMIT_BYTES < len(frame.encode())
    with pytest.raises(RemoteMessageError) as refused:
        codec.decode_from_member(frame)
    assert refused.value.error_code is ErrorCode.FRAME_TOO_LARGE


@given(st.text(max_size=300))
def test_a_text_is_as_large_as_its_bytes(frame: str) -> None:
    assert limits.bytes_of(frame) == len(frame.encode("utf-8", "surrogatepass"))


def test_a_short_text_is_within_the_limit_of_strangers_whatever_is_in_it() -> None:
    assert limits.bytes_of("\N{PARTY POPPER}" * limits.SHORT_CHARACTERS) <= limits.FRAME_LIMIT_BYTES


def test_the_language_of_the_link_breaks_in_the_same_two_ways() -> None:
    for frame, error in (("{", ErrorCode.MALFORMED_FRAME), (" " * (2**21 + 1), ErrorCode.FRAME_TOO_LARGE)):
        with pytest.raises(RemoteMessageError) as refused:
            codec.decode_from_broker(frame)
        assert refused.value.error_code is error
    with pytest.raises(LocalMessageError):
        codec.encode(BrokerPing(number=1, metadata_version=object()))  # type: ignore[arg-type]


def test_a_member_that_owns_much_may_say_much() -> None:
    entries = tuple(PartitionOffset(number, 2**62, 2**52) for number in range(10_000))
    frame = codec.encode(
        CommitOffsetsRequest(
            correlation_id=1, consumer_id="ann", offset_info=(TopicOffsets("orders", ORDERS, entries),)
        )
    )
    assert len(frame) > limits.FRAME_LIMIT_BYTES
    assert codec.decode_from_member(frame, limits.inbound_limit_bytes(10_000, 1))


def test_a_member_that_owns_a_little_of_very_many_topics_may_say_so() -> None:
    # A pattern may match them all.
    topics = tuple(
        TopicOffsets(f"{number}".rjust(249, "t"), UUID(int=number), (PartitionOffset(0, 2**62, 2**52),))
        for number in range(2_000)
    )
    frame = codec.encode(PingResponse(consumer_id="ann", number=1, offset_info=topics))
    assert codec.decode_from_member(frame, limits.inbound_limit_bytes(2_000, 2_000))


def test_a_command_is_no_frame_of_a_member() -> None:
    assert decoded(codec.encode(PingRequest(consumer_id="ann", number=1))) is None
    with pytest.raises(RemoteMessageError):
        codec.decode_to_member(codec.encode(REGISTER))


def test_our_own_mistake_is_named_as_such() -> None:
    with pytest.raises(LocalMessageError):
        codec.encode(PingRequest(consumer_id="ann", number=object()))  # type: ignore[arg-type]
