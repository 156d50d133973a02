"""The asking side gives each reply to the oldest open request, however the bytes were cut."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kafkawire.api_table import ApiKey, build, encode_reply, request_class, response_class
from muster.kafkawire.connection import ClientConnection
from muster.kafkawire.errors import FrameTooLarge, KafkaWireError, MalformedFrame


def _question() -> Any:
    return request_class(ApiKey.API_VERSIONS, 0)()


def _answer(correlation_id: int) -> bytes:
    body = build(response_class(ApiKey.API_VERSIONS, 0), error_code=0, api_keys=())
    return encode_reply(ApiKey.API_VERSIONS, 0, correlation_id, body)


@given(st.lists(st.integers(1, 40), min_size=1))
def test_replies_are_found_however_they_are_cut(cuts: list[int]) -> None:
    connection = ClientConnection("ann")
    asked = [connection.request(ApiKey.API_VERSIONS, 0, _question())[0] for _ in range(3)]
    stream = b"".join(_answer(correlation_id) for correlation_id in asked)
    heard = []
    for index in range(len(stream)):
        size = cuts[index % len(cuts)]
        heard += connection.receive_data(stream[:size])
        stream = stream[size:]
    assert [reply.correlation_id for reply in heard] == asked
    assert connection.in_flight == 0


def test_a_reply_nobody_asked_for_is_malformed() -> None:
    connection = ClientConnection("ann")
    connection.request(ApiKey.API_VERSIONS, 0, _question())
    with pytest.raises(MalformedFrame):
        connection.receive_data(_answer(5))


def test_an_oversize_reply_is_refused_by_its_prefix() -> None:
    connection = ClientConnection("ann", limit_bytes=100)
    with pytest.raises(FrameTooLarge):
        connection.receive_data(b"\x00\x00\x00\x65")


@given(st.binary(max_size=100))
def test_only_declared_errors_leave(data: bytes) -> None:
    connection = ClientConnection("ann", limit_bytes=1_000)
    connection.request(ApiKey.API_VERSIONS, 0, _question())
    try:
        connection.receive_data(data)
    except KafkaWireError:
        return
