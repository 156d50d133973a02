"""A row that cannot be written is refused with its group's; what others commit with it is durable."""

from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from runtime.news import TOLD_EVERY_MS
from runtime.ports import shard_lane
from runtime.streams import GUILTY_TRIES_MAX
from tests.conformance.counters import Tally, read_tally, write_tally
from tests.unit.runtime.lanes_in_memory import lanes_in_memory

MANY, BAD = 1_000, -1


class Full(ValueError):
    """The server's disk is full."""

    sqlstate = "53100"


class Counted(Tally):
    """Notes how many times it was written."""

    tries = 0
    is_full = False

    def write(self, connection: Any, rows: Mapping[str, int]) -> None:
        self.tries += 1
        if self.is_full:
            raise Full("no space left on device")
        write_tally(connection, rows)


def filled(*bad: int) -> Counted:
    tally = Counted("coordinator/0")
    for number in range(MANY):
        tally.note(str(number), BAD if number in bad else number)
    return tally


@pytest.mark.parametrize("bad", [(0,), (617,), (999,), (3, 4), (0, 500, 999)])
async def test_the_others_of_its_lane_are_written(bad: tuple[int, ...]) -> None:
    async with lanes_in_memory() as rig:
        lane, tally = await rig.take(), filled(*bad)
        with pytest.raises(ValueError, match="below zero"):
            await lane.submit_batch(tally)
        assert [rows for rows, _ in tally.refusals] == [{f"coordinator/0:{number}": BAD} for number in bad]
        assert len(await lane.read(read_tally)) == len(tally.acknowledged) == MANY - len(bad)
        assert tally.tries <= GUILTY_TRIES_MAX
        tally.note("next", 1)
        await lane.submit_batch(tally)


async def test_what_is_bad_as_a_whole_is_not_tried_for_ever() -> None:
    async with lanes_in_memory() as rig:
        lane, tally = await rig.take(), filled(*range(MANY))
        with pytest.raises(ValueError, match="below zero"):
            await lane.submit_batch(tally)
        assert tally.tries <= GUILTY_TRIES_MAX + 2
        assert sum(len(rows) for rows, _ in tally.refusals) == MANY


async def test_a_database_that_writes_for_nobody_is_asked_once() -> None:
    async with lanes_in_memory() as rig:
        lane, tally = await rig.take(), filled()
        tally.is_full = True
        with pytest.raises(Full):
            await lane.submit_batch(tally)
        assert tally.tries == 1
        assert [len(rows) for rows, _ in tally.refusals] == [MANY]


async def test_a_database_without_room_is_told_now_and_then_not_with_each_commit() -> None:
    async with lanes_in_memory() as rig:
        lanes = [await rig.take(), await rig.take(shard_lane(4))]
        tallies = [Counted(lane.name) for lane in lanes]
        with capture_logs() as logs:
            for lane, tally in [*zip(lanes, tallies, strict=True)] * 50:
                tally.is_full = True
                tally.note("ann", 1)
                with pytest.raises(Full):
                    await lane.submit_batch(tally)
            told = [line["event"] for line in logs]
            rig.at += TOLD_EVERY_MS
            tallies[0].note("ann", 1)
            with pytest.raises(Full):
                await lanes[0].submit_batch(tallies[0])
        assert told == ["a batch was refused"]
        assert [line["event"] for line in logs] == ["a batch was refused"] * 2
