"""A client that knows nothing but `docs/protocol.md` shares a group with the SDK, and loses nothing."""

import ast
import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster import Consumer
from tests.integration.coordinator.control_plane import ControlPlane, eventually, eventually_async
from tests.integration.sdk.brokers import LoneBroker
from tests.integration.sdk.conftest import PARTITIONS
from tests.integration.sdk.stranger import AskAgainError, RefusedError, Stranger

NewConsumer = Callable[..., Consumer]


@pytest.fixture
def member(plane: ControlPlane, topic: LoneBroker, group: str) -> Iterator[Stranger]:
    stranger = Stranger(list(plane.addresses.values()), plane.token(), group, topic.topic)
    yield stranger
    stranger.vanish()


def read(member: Stranger, values: dict[bytes, int], count: int) -> None:
    """Until it has read so many different values."""

    def enough() -> bool:
        for _, _, value in member.step():
            values[value] = values.get(value, 0) + 1
        return len(values) >= count

    eventually(enough, f"{count} values", 60)


def fill(topic: LoneBroker, first: int, count: int) -> set[bytes]:
    values = [b"%d" % number for number in range(first, first + count)]
    for partition in range(PARTITIONS):
        topic.produce(topic.topic, values[partition::PARTITIONS], partition=partition)
    return set(values)


def test_it_imports_nothing_of_this_repository() -> None:
    module = ast.parse(Path(__file__).with_name("stranger.py").read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(module)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported == {"confluent_kafka", "contextlib", "json", "secrets", "time", "typing", "websockets"}


async def test_it_joins_reads_shares_with_the_sdk_and_leaves(
    plane: ControlPlane, group: str, topic: LoneBroker, new_consumer: NewConsumer, member: Stranger
) -> None:
    values = fill(topic, 0, 400)
    seen: dict[bytes, int] = {}
    await asyncio.to_thread(read, member, seen, 400)
    answer = await asyncio.to_thread(member.commit)
    assert not answer.get("error_code") and not answer.get("refused")
    assert plane.committed(group) == dict.fromkeys(range(PARTITIONS), 100)
    async with new_consumer("ben") as ben:
        shares = lambda: len(ben.assignment) == PARTITIONS // 2  # noqa: E731
        both = asyncio.create_task(eventually_async(shares, "ben gets his share"))
        while not both.done():
            await asyncio.to_thread(member.step)
        await both
        assert len(member.positions) == PARTITIONS // 2
        assert {"Ping", "StopFetcher", "StartFetcher"} >= set(member.heard) - {"CommitOffsetsResponse"}
        values |= fill(topic, 400, 400)
        await asyncio.to_thread(read, member, seen, 600)
        await asyncio.to_thread(member.leave)
        while len(seen) < len(values):
            record = await asyncio.wait_for(anext(ben), 60)
            assert record.value is not None
            seen[record.value] = seen.get(record.value, 0) + 1
    assert seen == dict.fromkeys(values, 1)
    assert plane.committed(group) == dict.fromkeys(range(PARTITIONS), 200)


def test_it_comes_back_after_a_lost_connection_and_is_known(
    plane: ControlPlane, group: str, topic: LoneBroker, member: Stranger
) -> None:
    fill(topic, 0, 40)
    seen: dict[bytes, int] = {}
    read(member, seen, 40)
    generation = plane.generation(group)
    member.hang_up()
    fill(topic, 40, 40)
    read(member, seen, 80)
    assert member.known and plane.generation(group) == generation
    assert set(seen.values()) == {1}
    member.leave()
    assert plane.committed(group) == dict.fromkeys(range(PARTITIONS), 20)


def test_what_can_never_work_is_refused_as_the_document_says(plane: ControlPlane, group: str) -> None:
    member = Stranger(list(plane.addresses.values()), plane.token(), group, "orders", 10)
    with pytest.raises(RefusedError) as refusal:
        member.join()
    # INVALID_SESSION_TIMEOUT: it gives up.
    assert refusal.value.args[0]["error_code"] == 26


def test_who_leaves_where_the_group_has_just_moved_is_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = Stranger(["ws://nowhere"], "a token", "readers", "orders")
    monkeypatch.setattr(stranger, "_question", lambda frame: {"error_code": 16})
    with pytest.raises(AskAgainError):
        stranger.leave()
