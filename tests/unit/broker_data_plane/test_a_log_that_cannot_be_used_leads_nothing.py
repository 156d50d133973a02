"""A log that cannot be opened or written is refused by name, and who may elect another leader is told."""

import errno
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from broker.core.replica import Role
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_data_plane.planes import (
    ORDERS,
    broker,
    client,
    fetch,
    fetched,
    produce,
    produced,
)
from tests.unit.broker_log.logs import append


def _fails(*_arguments: Any, **_options: Any) -> NoReturn:
    raise OSError(errno.EIO, "the disk failed")


async def test_a_log_that_cannot_be_opened_is_hosted_as_failed(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1)
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        append(hosted.log, b"a")
    async with broker(tmp_path) as again:
        with patch("broker.log.segment.os.stat", _fails):
            await again.plane.open_logs()
        assert again.plane.troubles.unusable == (hosted.key,)
        again.obey(2, epoch=2, replicas=(1, 2))
        failed = again.plane.hosted(ORDERS, 0)
        assert failed is not None and failed.replica.role is Role.FAILED
        assert failed.replica.follower_fetches(2, 1, 2, 0, -1, again.plane.clock()) is (
            ErrorCode.KAFKA_STORAGE_ERROR
        )
        async with client(again.client_port) as ann:
            assert produced(await ann.ask(0, 9, produce(b"b"))) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert not await again.plane.close()


async def test_a_full_disk_gives_the_partition_to_who_may_have_room(tmp_path: Path) -> None:
    stated: list[object] = []
    async with broker(tmp_path) as one:
        one.plane.on_trouble = lambda: stated.append(one.plane.troubles.unusable)
        one.obey(1, replicas=(1, 2))
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        async with client(one.client_port) as ann:
            with patch("os.pwrite", _fails):
                for _ in range(2):
                    refused = await ann.ask(0, 9, produce(b"a", acks=1))
                    assert produced(refused) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
            assert stated == [(hosted.key,)]
            one.obey(2, leader=2, epoch=2, replicas=(1, 2))
            assert stated == [(hosted.key,), ()]
            one.obey(3, leader=1, epoch=3, replicas=(1, 2))
            assert produced(await ann.ask(0, 9, produce(b"a", acks=1))) == (ErrorCode.NONE, 0)


async def test_the_last_member_with_a_full_disk_stays_leader_and_is_read(tmp_path: Path) -> None:
    stated: list[object] = []
    async with broker(tmp_path) as one:
        one.plane.on_trouble = lambda: stated.append(one.plane.troubles.unusable)
        one.obey(1, replicas=(1, 2), isr=(1,))
        async with client(one.client_port) as ann:
            assert produced(await ann.ask(0, 9, produce(b"a"))) == (ErrorCode.NONE, 0)
            with patch("os.pwrite", _fails):
                assert produced(await ann.ask(0, 9, produce(b"b"))) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
            assert fetched(await ann.ask(1, 12, fetch(0))).records
            assert produced(await ann.ask(0, 9, produce(b"b"))) == (ErrorCode.NONE, 1)
    assert stated == []


async def test_who_waits_for_a_commit_hears_that_the_log_failed(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, replicas=(1, 2))
        hosted = one.plane.hosted(ORDERS, 0)
        assert hosted is not None
        async with client(one.client_port) as ann:
            ann.send(0, 9, produce(b"a"))
            while not hosted.commits_awaited():
                assert await ann.is_quiet(0.01)
            hosted.log.fail("the disk is gone")
            assert produced(await ann.hear()) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert hosted.replica.next_fetch() is None
