"""A node loads what most clients ask in a little at a time, before the first of them would hold the loop."""

import errno

import pytest

from muster.kafkawire import api_table
from muster.kafkawire.api_table import SERVED, request_class, shapes_loaded
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


def test_what_cannot_be_loaded_now_ends_neither_node_nor_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands come back in a process's first seconds, and each of its files may be one of their sockets."""

    def out_of_files(key: int, version: int) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(api_table, "request_class", out_of_files)
    assert len(list(shapes_loaded())) == len(SERVED)
