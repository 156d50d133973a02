"""A broker and its controller may be a version apart: what is new is appended, and old frames are read."""

import msgspec

from muster.kernel.error_codes import ErrorCode
from muster.messages import codec
from muster.messages.link.brokers import BrokerResult
from muster.messages.link.from_broker import BrokerHello, BrokerPing
from muster.messages.link.rows import BrokerRow
from muster.messages.link.to_broker import Changes, HelloAccepted, SnapshotChunk

OLD_HELLO = (
    b'{"type":"BrokerHello","broker_id":1,"incarnation":"a","endpoints":{"client":"127.0.0.1:9092"},"rack":"",'
    b'"cluster_id":"","broker_epoch":0,"lost_tail":true,"metadata_version":0}'
)
OLD_ACCEPTED = b'{"type":"HelloAccepted","cluster_id":"c","broker_epoch":3,"session_timeout_ms":9000}'
OLD_ROW = b'["00000000-0000-0000-0000-000000000001",0,[1,2],1,4,[1,2],7]'
OLD_CHUNK = (
    b'{"type":"SnapshotChunk","metadata_version":7,"number":0,"last":true,"brokers":[{"broker_id":1,'
    b'"broker_epoch":1,"incarnation":"a","endpoints":{},"rack":"","live":true}],"topics":[],"partitions":['
    + OLD_ROW
    + b"]}"
)
OLD_CHANGES = b'{"type":"Changes","metadata_version":8,"complete":true}'


def with_what_is_to_come(frame: bytes) -> bytes:
    """The frame as a newer end says it: with a field that is not known here."""
    said = msgspec.json.decode(frame)
    return msgspec.json.encode({**said, "of_a_later_version": {"anything": [1]}})


def test_an_older_broker_is_understood() -> None:
    hello = codec.decode_from_broker(OLD_HELLO)
    assert isinstance(hello, BrokerHello)
    assert (hello.protocol, hello.leaving) == (0, False)


def test_an_older_broker_says_nothing_of_what_comes_to_it() -> None:
    ping = codec.decode_from_broker(b'{"type":"BrokerPing","number":1,"metadata_version":7}')
    assert isinstance(ping, BrokerPing)
    assert (ping.arriving, ping.condition) == ((), None)


def test_an_older_controller_is_understood() -> None:
    accepted = codec.decode_to_broker(OLD_ACCEPTED)
    assert isinstance(accepted, HelloAccepted)
    assert accepted.protocol == 0
    chunk = codec.decode_to_broker(OLD_CHUNK)
    assert isinstance(chunk, SnapshotChunk)
    assert chunk.brokers == (BrokerRow(1, 1, "a", {}),)
    assert chunk.partitions[0].adding == ()
    changes = codec.decode_to_broker(OLD_CHANGES)
    assert isinstance(changes, Changes)
    assert (chunk.unusable, changes.unusable) == ((), ())


def test_what_a_newer_end_adds_to_a_frame_is_passed_over() -> None:
    for frame in (OLD_ACCEPTED, OLD_CHUNK, OLD_CHANGES):
        assert codec.decode_to_broker(with_what_is_to_come(frame)) == codec.decode_to_broker(frame)
    assert codec.decode_from_broker(with_what_is_to_come(OLD_HELLO)) == codec.decode_from_broker(OLD_HELLO)


def test_a_refusal_that_only_a_newer_end_knows_ends_no_link() -> None:
    frame = b'{"type":"BrokerResult","correlation_id":1,"broker_id":3,"error":2001,"text":"it is Tuesday"}'
    assert codec.decode_to_broker(frame) == BrokerResult(
        correlation_id=1, broker_id=3, error=ErrorCode.UNKNOWN_SERVER_ERROR, text="it is Tuesday"
    )
