"""A shard whose clients join, sync or leave is not quiet, so that no other node is given it meanwhile."""

from muster.kernel.instants import after
from muster.kernel.shards import shard_of
from runtime.sharing import QUIET_MS
from tests.unit.coordinator.kafka_clients import AT_ONCE, KEY, KafkaClient, stable
from tests.unit.coordinator.shards import Shards


async def test_a_shard_counts_its_quiet_from_the_tick_after_the_last_request() -> None:
    async with Shards(settings=AT_ONCE) as shards:
        ann = KafkaClient(shards, "ann")
        await stable(ann)
        service, began = shards.services[shard_of(KEY)], ann.service.premises.node.now()
        assert service.quiet_ms(after(began, QUIET_MS)) == 0
        service.tick(after(began, QUIET_MS))
        assert service.quiet_ms(after(began, QUIET_MS + 7)) == 7
        ann.asks_to_leave()
        assert service.quiet_ms(after(began, 2 * QUIET_MS)) == 0
