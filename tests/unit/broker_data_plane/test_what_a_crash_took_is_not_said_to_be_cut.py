"""What a crash took of a log that opens only later is not said to be cut: nobody knows who cut it."""

import os
from pathlib import Path

import pytest

from broker.core.loss_watch import Held
from broker.core.replica_log import PartitionKey
from broker.held_notes import HeldNotes
from broker.log.shelf import LogShelf
from muster.kafkawire import batches
from muster.messages.link.losses import NOT_KNOWN, LossAsked, LossReport
from muster.messages.link.to_broker import SnapshotChunk
from tests.unit.broker_data_plane.planes import ORDERS, broker
from tests.unit.broker_log.logs import append

KEY = PartitionKey(ORDERS, 0)


async def write(logs: Path, notes: HeldNotes) -> Path:
    """Three batches, of which it is noted that they were held; returns their file."""
    logs.mkdir()
    async with broker(logs) as one:
        one.obey(1)
        hosted = one.plane.hosted(*KEY)
        assert hosted is not None
        for value in (b"a", b"b", b"c"):
            append(hosted.log, value, epoch=1)
        notes.add((*KEY, 5), Held(3, 3, hosted.log.size_bytes))
        (path,) = hosted.log.folder.glob("*.log")
    return path


def fail_to_open(log: Path) -> None:
    """The process behind a crash of the machine cannot open it; the controller hears of the crash."""
    shelf = LogShelf(log.parent, was_clean=False, same_boot=False)
    shelf.scan()
    assert shelf.keys == {KEY}
    shelf.tried()
    shelf.confessed()


@pytest.mark.parametrize("crashed", [True, False])
async def test_the_process_that_opens_it_at_last_knows_of_no_cut(tmp_path: Path, crashed: bool) -> None:
    logs, notes = tmp_path / "logs", HeldNotes(tmp_path)
    path = await write(logs, notes)
    third = [start for start, _ in batches.headers(path.read_bytes())][2]
    cut_bytes = path.stat().st_size - third
    os.truncate(path, third)
    if crashed:
        fail_to_open(path.parent)
    async with broker(logs) as again:
        again.plane.losses.begin(notes, lambda: None, again.shelf.may_lack)
        await again.plane.open_logs()
        asked = LossAsked(ORDERS, 0, 5, 2)
        again.plane.losses.hear(
            SnapshotChunk(metadata_version=7, number=0, last=True, losses=(asked,)), (KEY,)
        )
        again.obey(7, leader=2, epoch=5, replicas=(1, 2), isr=(2,))
        hosted = again.plane.hosted(*KEY)
        position = hosted.replica.next_fetch() if hosted is not None else None
        assert position is not None and position.offset == 2
        assert again.plane.append_fetched(KEY, position, None, 0)
        told = (NOT_KNOWN, 3, NOT_KNOWN) if crashed else (2, 3, cut_bytes)
        assert again.plane.losses.reports() == (LossReport(ORDERS, 0, 5, 3, *told),)
