"""What a broker says of logs that it cannot use: all of them in a hello of bounded size, then differences."""

from uuid import UUID

from broker.core.replica_log import PartitionKey
from broker.core.troubles import Told, Troubles
from muster.messages import codec
from muster.messages.limits import (
    MAX_FRAME_FROM_BROKER_BYTES,
    MAX_ROWS_PER_FRAME,
    MAX_UNUSABLE_PER_HELLO,
    bytes_of,
)
from muster.messages.link.from_broker import BrokerHello, UnusableLogs

TOPIC = UUID(int=(1 << 128) - 1)
FIRST = 1_000_000
"""Numbers as long as any."""


def _key(number: int) -> PartitionKey:
    return PartitionKey(TOPIC, FIRST + number)


def test_a_change_is_told_once_and_alone() -> None:
    troubles = Troubles()
    troubles.fail(_key(1))
    assert troubles.whole() == (_key(1),)
    assert not troubles.has_news
    troubles.fail(_key(2))
    troubles.fill(_key(3))
    assert troubles.news() == Told((_key(2), _key(3)), ())
    assert not troubles.has_news
    troubles.empty(_key(3))
    troubles.forget(_key(2))
    assert troubles.news() == Told((), (_key(3), _key(2)))
    assert troubles.unusable == (_key(1),)


def test_what_came_and_went_between_two_tellings_is_not_told() -> None:
    troubles = Troubles()
    troubles.fill(_key(1))
    assert troubles.empty(_key(1)) and not troubles.empty(_key(1))
    assert troubles.news() == Told((), ())


def test_a_disk_with_very_many_logs_fits_into_a_hello_and_frames_behind_it() -> None:
    troubles, count = Troubles(), MAX_UNUSABLE_PER_HELLO + 2 * MAX_ROWS_PER_FRAME + 1
    for number in range(count):
        troubles.fail(_key(number), "the disk is gone")
    hello = BrokerHello(
        broker_id=1,
        incarnation="a",
        endpoints={},
        unusable_logs=troubles.whole(),
        damaged_logs=tuple(_key(n) for n in range(MAX_ROWS_PER_FRAME)),
    )
    assert bytes_of(codec.encode(hello)) < MAX_FRAME_FROM_BROKER_BYTES
    told = set(hello.unusable_logs)
    while troubles.has_news:
        news = troubles.news()
        assert len(news.failed) <= MAX_ROWS_PER_FRAME and not told & set(news.failed)
        told.update(news.failed)
        frame = codec.encode(UnusableLogs(failed=news.failed))
        assert bytes_of(frame) < MAX_FRAME_FROM_BROKER_BYTES
    assert len(told) == count
