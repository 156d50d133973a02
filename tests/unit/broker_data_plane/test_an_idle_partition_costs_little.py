"""Partitions that nobody uses are hosted only when they lead, and told of only when they change."""

from pathlib import Path

from muster.kafkawire.api_table import ApiKey
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_data_plane.planes import ORDERS, Broker, broker, client, produce, produced


def told(one: Broker) -> list[int]:
    """The high watermarks that the next ping names."""
    return [said.high_watermark for said in one.plane.changed_high_watermarks()]


async def test_a_partition_that_nobody_ever_led_is_hosted_when_it_leads(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, leader=-1, epoch=0, isr=())
        assert one.plane.hosted(ORDERS, 0) is None
        body = await ann.ask(ApiKey.PRODUCE, 9, produce(b"a"))
        assert produced(body)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        one.obey(2)
        body = await ann.ask(ApiKey.PRODUCE, 9, produce(b"a"))
        assert produced(body) == (0, 0)


async def test_a_log_on_disk_is_hosted_whoever_leads(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        await ann.ask(ApiKey.PRODUCE, 9, produce(b"a"))
    async with broker(tmp_path) as again:
        again.obey(2, leader=-1, epoch=0, isr=())
        hosted = again.plane.hosted(ORDERS, 0)
        assert hosted is not None
        assert hosted.log.end_offset == 1


async def test_a_high_watermark_is_told_once_and_to_a_new_link_again(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert told(one) == [0]
        assert told(one) == []
        await ann.ask(ApiKey.PRODUCE, 9, produce(b"a", b"b"))
        assert told(one) == [2]
        assert told(one) == []
        one.plane.tell_all_high_watermarks()
        assert told(one) == [2]


async def test_only_who_leads_tells_the_high_watermark(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1)
        one.obey(2, leader=2, epoch=2, replicas=(1, 2))
        assert told(one) == []
        one.obey(3, epoch=3, replicas=(1, 2))
        assert told(one) == [0]
        one.plane.stop(ORDERS, 0)
        assert told(one) == []
