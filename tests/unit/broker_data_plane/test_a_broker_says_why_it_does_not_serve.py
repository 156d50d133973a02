"""Why a partition is not served here is said in one place, for every request (conformance 215)."""

from pathlib import Path
from uuid import UUID

from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_data_plane.planes import ORDERS, broker


async def test_a_partition_that_is_led_here_is_given(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1)
        assert one.plane.led("orders", 0) is one.plane.named("orders", 0)
        assert one.plane.led(ORDERS, 0, 1) is one.plane.named("orders", 0)


async def test_a_stated_epoch_must_be_the_leaders(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, epoch=2)
        assert one.plane.led("orders", 0, 1) is ErrorCode.FENCED_LEADER_EPOCH
        assert one.plane.led("orders", 0, 3) is ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_who_follows_or_holds_no_replica_names_the_reason(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, leader=2, replicas=(1, 2))
        assert one.plane.led("orders", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        one.obey(2, leader=2, replicas=(2,))
        assert one.plane.led("orders", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert one.plane.led(ORDERS, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert one.plane.led("orders", 7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert one.plane.led(UUID(int=99), 0) is ErrorCode.UNKNOWN_TOPIC_ID
