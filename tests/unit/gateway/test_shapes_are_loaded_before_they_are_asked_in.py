"""A node loads what most clients ask in a little at a time, before the first of them would hold the loop."""

from muster.kafkawire.api_table import SERVED, request_class
from muster.kafkawire.bounds import walk_of
from runtime import clock
from tests.unit.gateway.doors import kafka_door


async def test_the_newest_shape_of_each_request_is_there_after_some_ticks() -> None:
    walk_of.cache_clear()
    async with kafka_door() as door:
        for _ in SERVED:
            door.listener.tick(clock.now())
        loaded = walk_of.cache_info().misses
        for api in SERVED.values():
            walk_of(request_class(api.key, api.maximum))
        assert loaded >= len(SERVED) and walk_of.cache_info().misses == loaded
