"""What happens to a log while the cleaner looks elsewhere, or reads it in its thread, spoils no pass."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker import cleaner, compactor
from broker.log.cleaning import CLEANER_CHECKPOINT
from broker.log.compaction import Task
from muster.kafkawire.api_table import ApiKey
from tests.unit.broker_data_plane.planes import ORDERS, Broker, Client, broker, client, produce
from tests.unit.broker_log.compacted_logs import keyed

COMPACTED = {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.01"}


async def fill(one: Broker, ann: Client, partitions: int = 1) -> None:
    one.obey(1, configs=COMPACTED, partitions=partitions)
    await put(ann)


async def put(ann: Client, partition: int = 0) -> None:
    for number in range(60):
        batch = keyed([(b"k%d" % (number % 3), b"%d" % number * 200)])
        await ann.ask(ApiKey.PRODUCE, 9, produce(batch=batch, partition=partition))


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[Any, Any], None]) -> None:
    """Something `happens` on the loop before it hears of each call that was made beside it."""

    async def to_thread(function: Any, *arguments: Any, **named: Any) -> Any:
        result = await asyncio.to_thread(function, *arguments, **named)
        happens(function, result)
        return result

    class Beside:
        """asyncio, but for that."""

        def __getattr__(self, name: str) -> Any:
            return to_thread if name == "to_thread" else getattr(asyncio, name)

    monkeypatch.setattr(cleaner, "asyncio", Beside())


async def test_a_log_that_lost_segments_while_others_were_looked_at_is_compacted_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not refused for good, as if it could not be read."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await fill(one, ann, partitions=2)
        dirty, other = sorted(one.plane.partitions(), key=lambda hosted: hosted.key)
        looked: list[Any] = []

        def happens(function: Any, result: Any) -> None:
            looked.append(function)
            if function == other.log.cleaning.load:
                dirty.delete_before(30, one.plane.wall_clock_ms())

        meanwhile(monkeypatch, happens)
        assert await one.plane.cleaner.clean_dirty() == 1
        assert other.log.cleaning.load in looked
        passes = dirty.log.cleaning.passes
        assert passes is not None and passes.clean_to > 30


async def test_a_pass_over_a_log_that_is_gone_says_nothing_of_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition that was removed and came again has the number, and so the folder."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await fill(one, ann)

        def happens(function: Any, result: Any) -> None:
            if function.__name__ == "next_file" and result is None:
                one.plane.stop(ORDERS, 0, is_deleted=True)
                one.obey(2, configs=COMPACTED, epoch=2, base_epoch=1)
                (anew,) = one.plane.partitions()
                anew.append_produced(memoryview(bytearray(keyed([(b"k", b"v")]))), one.plane.wall_clock_ms())

        meanwhile(monkeypatch, happens)
        assert await one.plane.cleaner.clean_dirty() == 1
        assert next(one.plane.partitions()).log.end_offset == 1
        assert not (tmp_path / "1" / "orders-0" / CLEANER_CHECKPOINT).exists()


async def test_a_log_that_cannot_be_looked_at_holds_up_no_other_and_ends_no_broker(tmp_path: Path) -> None:
    """Each round looks when the first record of a segment was written, and the disk may refuse to tell."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await fill(one, ann, partitions=2)
        await put(ann, partition=1)
        spoilt, sound = sorted(one.plane.partitions(), key=lambda hosted: hosted.key)
        gone = spoilt.log.full_segments()[0]
        gone._first_time_ms = None  # As of one that was opened, not written, by this process.
        gone._files.forget(gone.place)
        gone.path.rename(tmp_path / "aside")
        assert await one.plane.cleaner.clean_dirty() == 1
        assert sound.log.cleaning.passes is not None and sound.log.cleaning.passes.clean_to > 30
        assert one.plane.cleaner.given_up == 1
        (tmp_path / "aside").rename(gone.path)
        assert await one.plane.cleaner.clean_dirty() == 1
        assert one.plane.cleaner.given_up == 0


async def test_a_log_whose_passes_fail_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays the dirtiest: whoever ended the round by it never came to the others, and they grew."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        await fill(one, ann, partitions=2)
        await put(ann, partition=1)
        spoilt, sound = sorted(one.plane.partitions(), key=lambda hosted: hosted.key)
        bad_sector = spoilt.log.full_segments()[0].path
        begin = compactor.begin

        def begin_where_the_disk_fails(task: Task) -> Any:
            if task.sources[0].path == bad_sector:
                raise OSError(errno.EIO, "Input/output error")
            return begin(task)

        monkeypatch.setattr(compactor, "begin", begin_where_the_disk_fails)
        assert await one.plane.cleaner.clean_dirty() == 1
        assert sound.log.cleaning.passes is not None and sound.log.cleaning.passes.clean_to > 20
        assert one.plane.cleaner.given_up == 1
