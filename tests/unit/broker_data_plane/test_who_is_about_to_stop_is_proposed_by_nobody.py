"""A leader asks for nobody who may not come in: each commit would wait for the refusal (KAFKA-15021)."""

from pathlib import Path

from muster.kernel.instants import Instant
from muster.messages.link.from_broker import IsrProposal
from tests.unit.broker_data_plane.planes import broker


async def test_it_is_proposed_when_it_stays_after_all(tmp_path: Path) -> None:
    async with broker(tmp_path) as one:
        one.obey(1, replicas=(1, 2), isr=(1,))
        hosted = one.plane.named("orders", 0)
        assert hosted is not None
        assert hosted.replica.follower_fetches(2, 1, 1, 0, -1, Instant(one.now_ms)) is None
        one.plane.leaving = frozenset({2})
        proposed: list[IsrProposal] = []
        await one.plane.upkeep.propose(lambda: True, proposed.extend)
        assert proposed == []
        one.plane.leaving = frozenset()
        await one.plane.upkeep.propose(lambda: True, proposed.extend)
        assert [proposal.isr for proposal in proposed] == [(1, 2)]
