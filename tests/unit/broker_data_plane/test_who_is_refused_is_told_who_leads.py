"""KIP-951: whoever is refused because another broker leads is told which, and goes there without asking."""

from pathlib import Path
from typing import Any

import pytest

from muster.kafkawire.api_table import ApiKey
from tests.unit.broker_data_plane.planes import broker, client, fetch, fetched, produce

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
IN_STEP = (1, 2)
NOT_LEADER, FENCED = 6, 74
Named = tuple[int, int, list[tuple[int, str, int, str | None]]]
SECOND: Named = (2, 2, [(2, "127.0.0.1", 9002, None)])
"""Broker 2 since epoch 2, and where it is."""
NOBODY: Named = (-1, -1, [])


def named(body: Any, answer: Any) -> Named:
    """Who is said to lead, since when, and where whoever leads is."""
    leader = answer.current_leader
    nodes = [(one.node_id, one.host, one.port, one.rack) for one in body.node_endpoints]
    return leader.leader_id, leader.leader_epoch, nodes


def refused(body: Any) -> Any:
    """The only partition of a Produce reply."""
    (answer,) = body.responses[0].partition_responses
    assert answer.error_code == NOT_LEADER
    return answer


@pytest.mark.parametrize("version", [10, 11, 12])
async def test_a_producer_is_told(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(2, leader=2, epoch=2, replicas=IN_STEP)
        body = await ann.ask(PRODUCE, version, produce(b"a", version=version))
        assert named(body, refused(body)) == SECOND


@pytest.mark.parametrize("version", [3, 8, 9])
async def test_who_would_not_understand_is_told_the_error_alone(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(2, leader=2, epoch=2, replicas=IN_STEP)
        assert refused(await ann.ask(PRODUCE, version, produce(b"a", version=version)))
        answer = fetched(await ann.ask(FETCH, 15, fetch(0, version=15)))
        assert (answer.error_code, answer.current_leader.leader_id) == (NOT_LEADER, -1)


async def test_a_producer_that_waits_is_told_when_its_leader_is_deposed(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, replicas=IN_STEP)
        ann.send(PRODUCE, 10, produce(b"a", version=10))
        assert await ann.is_quiet()
        one.obey(2, leader=2, epoch=2, replicas=IN_STEP)
        body = await ann.hear()
        assert named(body, refused(body)) == SECOND


async def test_a_consumer_is_told_at_once_and_when_it_waits(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann, client(one.client_port) as ben:
        one.obey(1, replicas=IN_STEP)
        ann.send(FETCH, 16, fetch(0, version=16, max_wait_ms=10_000, session=(0, 0)))
        assert await ann.is_quiet()
        one.obey(2, leader=2, epoch=2, replicas=IN_STEP)
        for body in (await ann.hear(), await ben.ask(FETCH, 16, fetch(0, version=16))):
            answer = fetched(body)
            assert (answer.error_code, named(body, answer)) == (NOT_LEADER, SECOND)


async def test_a_consumer_with_an_old_epoch_is_told_the_new_one(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(3, epoch=3)
        body = await ann.ask(FETCH, 16, fetch(0, version=16, leader_epoch=2))
        answer = fetched(body)
        assert answer.error_code == FENCED
        assert named(body, answer) == (1, 3, [(1, "127.0.0.1", 9001, None)])


async def test_nobody_is_named_where_nobody_leads(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(2, leader=-1, epoch=2, replicas=IN_STEP)
        body = await ann.ask(PRODUCE, 10, produce(b"a", version=10))
        assert named(body, refused(body)) == NOBODY


async def test_a_leader_that_wants_other_batches_first_does_not_name_itself(tmp_path: Path) -> None:
    """Else its client would take the refusal for news of an election, and send the same at once."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        body = await ann.ask(PRODUCE, 10, produce(b"a", producer=(7, 0, 5), version=10))
        assert named(body, refused(body)) == NOBODY
