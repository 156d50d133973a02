"""A body that no door could store or word again is refused when it is read: 400, not our own mistake."""

from io import BytesIO
from typing import Any

import pytest
from rest_framework.exceptions import ParseError

from access.rest.bodies import JsonBody


def read(body: bytes) -> Any:
    return JsonBody().parse(BytesIO(body))


def test_a_body_is_what_it_says() -> None:
    body = '{"topic": "flüge", "partitions": 6, "of": [null, true, 1.5, "\\ud83d\\ude80"]}'
    assert read(body.encode()) == {"topic": "flüge", "partitions": 6, "of": [None, True, 1.5, "🚀"]}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"1" * 5_000,
        b'{"\\ud800": 1}',
        b'{"configs": {"\\uDC00": "1"}}',
        b'["a \\uD83d"]',
        b'{"kind": "rebalance", "kind": "delete_group"}',
        b'{"scope": [{"topic": "orders", "\\u0074opic": "clicks"}]}',
    ],
)
def test_what_cannot_be_read_is_the_senders_mistake(body: bytes) -> None:
    with pytest.raises(ParseError):
        read(body)
