"""This room asks one request of any version and reads its answer, as a client would."""

from typing import Any

from muster.kafkawire.api_table import (
    ApiKey,
    build,
    encode_request,
    part,
    read_body,
    reply_body_start,
    request_class,
    response_class,
)

CORRELATION_ID = 7


class Kept:
    """The place of one answer, for handlers that are called without a socket."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.hung_up = ""

    def send(self, *pieces: bytes) -> None:
        self.pieces += pieces

    def hang_up(self, reason: str) -> None:
        self.hung_up = reason


def frame(key: ApiKey, version: int, /, **fields: Any) -> memoryview:
    """A request without its length prefix; fields that the version does not have are left out."""
    body = build(request_class(key, version), **fields)
    return memoryview(encode_request(key, version, CORRELATION_ID, "ann", body)[4:])


def body_of(key: ApiKey, version: int, answer: bytes) -> Any:
    """kio's class of an answer, which is a whole frame."""
    start = reply_body_start(key, version, answer[4:])
    return read_body(response_class(key, version), answer[4:], start)


def parts(key: ApiKey, version: int, name: str, /, **fields: Any) -> Any:
    """A part of a request."""
    return build(part(request_class(key, version), name), **fields)
