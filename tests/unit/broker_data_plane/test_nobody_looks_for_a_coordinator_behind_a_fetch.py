"""Answers leave in their order: a fetch that waits is over when its client asks who leads, or coordinates."""

from pathlib import Path
from typing import Any

import pytest

from muster.kafkawire.api_table import ApiKey, build, request_class
from tests.unit.broker_data_plane.planes import Client, broker, client, fetch, fetched, produce, produced

FETCH, PRODUCE = ApiKey.FETCH, ApiKey.PRODUCE
MINUTE_MS = 60_000
FIRST, NEXT = 0, 1

ASKED: dict[str, tuple[ApiKey, int, dict[str, Any]]] = {
    "a coordinator": (ApiKey.FIND_COORDINATOR, 3, {"key": "billing", "key_type": 0}),
    "leaders": (
        ApiKey.METADATA,
        12,
        {
            "topics": (),
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        },
    ),
}


def look_for(ann: Client, what: str) -> None:
    key, version, fields = ASKED[what]
    ann.send(key, version, build(request_class(key, version), **fields))


@pytest.mark.parametrize("what", ASKED)
async def test_a_fetch_that_waits_is_answered_with_what_there_is(tmp_path: Path, what: str) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        ann.send(FETCH, 12, fetch(0, max_wait_ms=MINUTE_MS))
        ann.send(FETCH, 12, fetch(0, max_wait_ms=MINUTE_MS))
        look_for(ann, what)
        for _ in range(2):
            answer = fetched(await ann.hear())
            assert (int(answer.error_code), answer.high_watermark, answer.records or b"") == (0, 0, b"")
        assert await ann.hear() is not None
        assert one.client.server.parked_elements == 0


async def test_so_is_one_that_waits_for_more_bytes(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        assert produced(await ann.ask(PRODUCE, 9, produce(b"a"))) == (0, 0)
        ann.send(FETCH, 12, fetch(0, max_wait_ms=MINUTE_MS, min_bytes=1_000_000))
        look_for(ann, "a coordinator")
        assert fetched(await ann.hear()).records
        assert await ann.hear() is not None


async def test_a_session_goes_on_behind_it(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        opened = await ann.ask(FETCH, 12, fetch(0, session=(0, FIRST)))
        ann.send(FETCH, 12, fetch(0, session=(opened.session_id, NEXT), max_wait_ms=MINUTE_MS, is_empty=True))
        look_for(ann, "a coordinator")
        assert (await ann.hear()).responses == ()
        assert await ann.hear() is not None
        assert produced(await ann.ask(PRODUCE, 9, produce(b"a"))) == (0, 0)
        news = await ann.ask(FETCH, 12, fetch(0, session=(opened.session_id, NEXT + 1), is_empty=True))
        assert fetched(news).records


async def test_the_fetches_of_others_go_on_waiting(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as ben:
        one.obey(1)
        ben.send(FETCH, 12, fetch(0, max_wait_ms=MINUTE_MS))
        while not one.client.server.parked_elements:
            assert await ben.is_quiet(0.005)
        look_for(ann, "a coordinator")
        assert await ann.hear() is not None
        assert one.client.server.parked_elements == 1
        # A fetch that is over is forgotten by its connection.
        assert produced(await ann.ask(PRODUCE, 9, produce(b"a"))) == (0, 0)
        assert fetched(await ben.hear()).records
        look_for(ben, "a coordinator")
        assert await ben.hear() is not None
