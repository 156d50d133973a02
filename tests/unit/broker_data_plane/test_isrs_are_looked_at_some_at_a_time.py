"""A broker looks now and then at the followers of all that it leads; its loop goes round meanwhile."""

import asyncio
from pathlib import Path

import pytest

from broker import upkeep
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import IsrProposal
from tests.unit.broker_data_plane.planes import ORDERS, broker


async def test_whoever_is_stopped_meanwhile_asks_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "AT_ONCE_S", -1.0)
    sent: list[list[int]] = []

    def send(proposals: list[IsrProposal]) -> None:
        sent.append([one.partition for one in proposals])
        if len(sent) == 1:
            # In the next round of the loop, and before the next partition is looked at.
            asyncio.get_running_loop().call_soon(one.plane.stop, ORDERS, 1)

    async with broker(tmp_path) as one:
        one.obey(1, replicas=(1, 2), isr=(1,), partitions=3)
        for number in range(3):
            hosted = one.plane.named("orders", number)
            assert hosted is not None
            assert hosted.replica.follower_fetches(2, 1, 1, 0, -1, Instant(one.now_ms)) is None
        await one.plane.upkeep.propose(lambda: True, send)
    assert sent == [[0], [], [2], []]
