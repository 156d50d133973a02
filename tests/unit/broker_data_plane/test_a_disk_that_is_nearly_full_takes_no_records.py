"""On a small disk of its own: producers are refused before it is full, and taken again when there is room."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.log.outcomes import LogSettings
from broker.plane_settings import DataPlaneSettings
from muster.kafkawire.api_table import ApiKey
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_data_plane.planes import broker, client, fetch, fetched, produce, produced
from tests.unit.broker_data_plane.test_records_are_deleted_everywhere import below, result

MIB = 1024 * 1024
SMALL = DataPlaneSettings(log=LogSettings(segment_bytes=MIB), reserve_bytes=4 * MIB)
PRODUCE, FETCH, DELETE = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.DELETE_RECORDS


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB, where this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", folder]).returncode:
        pytest.skip("only who may mount has a disk to fill")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


async def test_records_are_refused_early_and_taken_again_when_there_is_room(disk: Path) -> None:
    async with broker(disk, settings=SMALL) as one, client(one.client_port) as ann:
        one.obey(1)
        error, stored = 0, 0
        while not error:
            error, _ = produced(await ann.ask(PRODUCE, 9, produce(os.urandom(200_000))))
            stored += not error
            await one.plane.upkeep.look_for_room()
            assert stored < 40, "there is no room for so many"
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        told = one.plane.upkeep.disk
        assert told is not None and told.usable_bytes > 3 * MIB, "and some was kept"
        assert len(fetched(await ann.ask(FETCH, 12, fetch(0))).records) > 0, "what is there is read"
        assert result(await ann.ask(DELETE, 2, below(-1))) == (ErrorCode.NONE, stored), "and can be deleted"
        await one.plane.upkeep.erase_old()
        await one.plane.upkeep.look_for_room()
        assert produced(await ann.ask(PRODUCE, 9, produce(b"again"))) == (ErrorCode.NONE, stored)


async def test_a_broker_that_keeps_no_reserve_takes_what_its_disk_takes(disk: Path) -> None:
    none = DataPlaneSettings(log=LogSettings(segment_bytes=MIB))
    async with broker(disk, settings=none) as one, client(one.client_port) as ann:
        one.obey(1)
        error, stored = 0, 0
        while not error:
            error, _ = produced(await ann.ask(PRODUCE, 9, produce(os.urandom(200_000))))
            stored += not error
            assert stored < 60
        assert (error, stored > 30) == (ErrorCode.KAFKA_STORAGE_ERROR, True)
        (hosted,) = one.plane.partitions()
        assert hosted.log.end_offset == stored, "nothing is half written"
        assert not hosted.log.failure
