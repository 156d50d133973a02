"""Kafka's tools ask a coordinator about all of its groups in one request, be they thousands."""

import asyncio
from collections import Counter
from itertools import count, islice
from typing import Any

import pytest

from gateway import questions
from gateway.translation import deleting, offsets
from groups.core.classic import CLASSIC, ClassicRows
from groups.core.state import GroupRows
from muster.kafkawire.api_table import ApiKey, build, encode_body, part, request_class, response_class
from muster.kernel.error_codes import ErrorCode
from muster.kernel.shards import shard_of
from runtime.database import JournalRow
from runtime.memory import MemoryLink
from tests.unit.gateway.doors import KEY, Peer, kafka_door

NONE, NOT_COORDINATOR, NON_EMPTY, NOT_FOUND = 0, 16, 68, 69
DESCRIBE, DELETE, FETCH = ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_FETCH
MANY = 10_000


def names() -> tuple[str, ...]:
    """As many as one request may name; a member is in the first."""
    return (KEY, *(f"group-{number}" for number in range(MANY - 1)))


async def described(peer: Peer) -> list[Any]:
    told = await peer.ask(DESCRIBE, 6, groups=names(), include_authorized_operations=False)
    return list(told.groups)


async def test_each_of_ten_thousand_is_described() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        joined = await ann.joins()
        await ann.syncs(joined)
        told = await described(ann)
        assert tuple(one.group_id for one in told) == names()
        assert (int(told[0].error_code), told[0].group_state) == (NONE, "Stable")
        # Those of the shard that is served here do not exist, the others are another node's.
        assert {int(one.error_code) for one in told[1:]} == {NOT_FOUND, NOT_COORDINATOR}


async def test_others_are_answered_while_ten_thousand_are_described() -> None:
    async with kafka_door() as door:
        ann, ben = await door.peer(), await door.peer()
        joined = await ben.joins()
        await ben.syncs(joined)
        all_of_them = asyncio.create_task(described(ann))
        heard = 0
        while not all_of_them.done():
            ben.sends_heartbeat(joined)
            assert int((await ben.hear()).error_code) == NONE
            heard += 1
        assert len(await all_of_them) == MANY
        assert heard > MANY // 1_000


async def test_each_of_ten_thousand_is_deleted_or_refused() -> None:
    async with kafka_door() as door:
        ann = await door.peer()
        told = (await ann.ask(DELETE, 2, groups_names=names())).results
        assert tuple(one.group_id for one in told) == names()
        assert {int(one.error_code) for one in told} == {NOT_FOUND, NOT_COORDINATOR}


async def test_groups_of_one_shard_are_deleted_in_one_transaction_and_answered_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transaction for each was ten thousand waits for a disk."""
    mine = list(
        islice((one for one in map("group-{}".format, count()) if shard_of(one) == shard_of(KEY)), 60)
    )
    written: list[int] = []
    turn = MemoryLink.turn

    def counted(link: MemoryLink, held: Any, write: Any, *rows: JournalRow) -> Any:
        written.append(len(rows))
        return turn(link, held, write, *rows)

    groups = [GroupRows(name, version=3, protocol=CLASSIC, classic=ClassicRows()) for name in mine]
    async with kafka_door(stored=groups) as door:
        ann = await door.peer()
        await ann.joins()
        monkeypatch.setattr(MemoryLink, "turn", counted)
        told = (await ann.ask(DELETE, 2, groups_names=(KEY, *mine, "group-of-nobody"))).results
        outcomes = {one.group_id: int(one.error_code) for one in told}
        assert outcomes.pop(KEY) == NON_EMPTY
        assert outcomes.pop("group-of-nobody") in (NOT_FOUND, NOT_COORDINATOR)
        assert set(outcomes.values()) == {NONE}
        assert (sum(written), len(written)) == (len(mine), 1)


@pytest.mark.parametrize("version", range(3))
def test_what_was_deleted_is_worded_as_kafka_does(version: int) -> None:
    """By hand: kio's writer took 50 ms for ten thousand, in one go."""
    outcomes = {"": ErrorCode.INVALID_GROUP_ID, **{f"grüppe-{n}": ErrorCode.NONE for n in range(200)}}
    shape = response_class(DELETE, version)
    one = part(shape, "DeletableGroupResult")
    results = tuple(build(one, group_id=name, error_code=error) for name, error in outcomes.items())
    assert deleting.deleted_groups(version, outcomes) == encode_body(build(shape, results=results))


async def test_each_of_ten_thousand_is_told_what_it_has_committed() -> None:
    """Whoever watches lags asks so, again and again."""
    group = part(request_class(FETCH, 8), "OffsetFetchRequestGroup")
    async with kafka_door() as door:
        ann = await door.peer()
        asked = tuple(build(group, group_id=name, topics=None) for name in names())
        told = (await ann.ask(FETCH, 8, groups=asked, require_stable=False)).groups
        assert tuple(one.group_id for one in told) == names()
        assert int(told[0].error_code) == NONE
        assert {int(one.error_code) for one in told} == {NONE, NOT_COORDINATOR}


async def test_what_many_of_one_shard_have_committed_is_not_looked_up_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a thousand groups with fifty partitions that took 40 ms, in which nobody else was answered."""
    of_the_shard = (name for name in (f"group-{n}" for n in count()) if shard_of(name) == shard_of(KEY))
    looked_up: Counter[int] = Counter()
    passes, found_offsets = 0, offsets.found_offsets

    def counted(*asked: Any) -> Any:
        looked_up[passes] += 1
        return found_offsets(*asked)

    async def count_passes() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(offsets, "found_offsets", counted)
    group = part(request_class(FETCH, 8), "OffsetFetchRequestGroup")
    async with kafka_door() as door:
        ann = await door.peer()
        asked = tuple(build(group, group_id=name, topics=None) for name in islice(of_the_shard, 1_000))
        counting = asyncio.create_task(count_passes())
        told = (await ann.ask(FETCH, 8, groups=asked, require_stable=False)).groups
        counting.cancel()
    assert {int(one.error_code) for one in told} == {NONE}
    assert looked_up.total() == len(asked)
    assert max(looked_up.values()) <= questions.ASKED_AT_ONCE
