"""A broker proposes on a new link only when every row of its snapshot is obeyed (`propose_early`)."""

import asyncio
from pathlib import Path

import pytest

from broker import process as broker_process
from broker import upkeep
from broker.core.peer_proof import Incarnation
from broker.core.replica import FetchPosition
from broker.fetch_session import FetchLimits, FetchSession
from muster.kafkawire.fetch_requests import fetch_frame
from muster.messages.link.from_broker import IsrProposal
from tests.unit.broker_data_plane.planes import introduced
from tests.unit.broker_process.controller_side import KEY, LAST, PARTITIONS, ControllerSide, linked_broker


async def test_what_was_proposed_is_still_pending_when_the_snapshot_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row would end the proposal here while the controller goes on to commit it: the leader would then
    acknowledge without the member that it let in."""
    monkeypatch.setattr(broker_process, "OBEY_AT_ONCE_MS", 0)
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller) as process:
        link, hello = await controller.bind()
        await controller.apply(link, version=5)
        await link.close()
        link, _ = await controller.bind()
        follower = FetchSession(2, 1, FetchLimits(0, 1, 1_000_000, 1_000_000))
        follower.move(LAST, FetchPosition(1, 1, 0, -1))
        port = int(hello.endpoints["replication"].rpartition(":")[2])
        async with introduced(port, KEY, Incarnation(2, 1)) as ben:
            await ben.exchange(fetch_frame(0, "ben", follower.request()))
        await controller.apply(link, version=6)
        hosted = process._plane.hosted(*LAST)
        assert hosted is not None
        await controller.hear_proposals(link)
        assert controller.proposed == [LAST]
        assert hosted.replica.pending is not None


async def test_others_have_their_turn_while_all_that_a_new_link_may_propose_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 20,000 partitions the loop of a broker that had just come stood still for it."""
    monkeypatch.setattr(upkeep, "AT_ONCE_S", -1.0)
    asked: list[int] = []
    controller = ControllerSide()
    async with (
        asyncio.timeout(30),
        linked_broker(tmp_path, controller, MUSTER_REPLICA_LAG_TIME_MAX_MS="600000") as process,
    ):
        send = process._send_proposals

        def counted(proposals: list[IsrProposal]) -> None:
            asked.append(len(proposals))
            send(proposals)

        monkeypatch.setattr(process, "_send_proposals", counted)
        link, _ = await controller.bind()
        await controller.apply(link, version=5)
        while len(asked) <= PARTITIONS:
            await asyncio.sleep(0)
    assert asked == [0] * (PARTITIONS + 1)
