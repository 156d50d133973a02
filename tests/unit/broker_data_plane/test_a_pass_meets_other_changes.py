"""What happens to a log while the cleaner looks elsewhere, or reads it in its thread, spoils no pass."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker import cleaner
from broker.log.cleaning import CLEANER_CHECKPOINT
from muster.kafkawire.api_table import ApiKey
from tests.unit.broker_data_plane.planes import ORDERS, Broker, Client, broker, client, produce
from tests.unit.broker_log.compacted_logs import keyed

COMPACTED = {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.01"}


async def fill(one: Broker, ann: Client, partitions: int = 1) -> None:
    one.obey(1, configs=COMPACTED, partitions=partitions)
    for number in range(60):
        await ann.ask(
            ApiKey.PRODUCE, 9, produce(batch=keyed([(b"k%d" % (number % 3), b"%d" % number * 200)]))
        )


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
