"""A commit stays when its connection goes; whoever comes, commits and goes again fills no memory by it."""

from typing import Any

import pytest

from coordinator.backlog import WEIGHT_OF_ONE, Backlog
from coordinator.classic_commits import ClassicCommit, Committed, Stated
from coordinator.commits import Commit
from coordinator.core.events import ConnectionId
from coordinator.service import ShardService
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Position
from tests.unit.coordinator.shards import Caller, Shards, eventually, readers, registering
from tests.unit.coordinator.test_kafka_clients_commit_in_the_batch import KEY, classic
from tests.unit.coordinator_core.group import orders

ROOM = 10
OTHERS = "others"


def _asked(connection: str, answers: list[ErrorCode], **stated: Any) -> ClassicCommit:
    return ClassicCommit(
        key=KEY,
        connection=ConnectionId(connection),
        member_id="ann",
        group_instance_id=None,
        generation=1,
        stated=Stated.of({orders(0): Committed(7, **stated)}),
        answer=lambda judgement: answers.append(judgement.error),
    )


async def _serving(shards: Shards) -> tuple[ShardService, Backlog]:
    service = await shards.serve(KEY)
    backlog = service._commits._backlog = Backlog(most=ROOM * (1 + WEIGHT_OF_ONE))
    return service, backlog


async def test_who_comes_when_too_much_waits_is_told_to_come_again() -> None:
    async with Shards([classic()]) as shards:
        service, _ = await _serving(shards)
        shards.store.gate.clear()
        answers: list[ErrorCode] = []
        for number in range(ROOM):
            assert service.commit(_asked(f"stranger {number}", answers))
        assert answers == []
        refused: list[ErrorCode] = []
        assert service.commit(_asked("one more", refused)), "it is not hung up on"
        assert refused == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        shards.store.gate.set()
        await eventually(lambda: len(answers) == ROOM)
        assert answers == [ErrorCode.NONE] * ROOM
        assert service.commit(_asked("one more", answers))
        await eventually(lambda: len(answers) > ROOM)
        assert answers[-1] is ErrorCode.NONE


async def test_what_is_refused_makes_room_as_well() -> None:
    async with Shards([classic()]) as shards:
        service, backlog = await _serving(shards)
        shards.store.gate.clear()
        answers: list[ErrorCode] = []
        for number in range(ROOM):
            assert service.commit(_asked(f"stranger {number}", answers))
        await service.give_up(None)
        assert answers == [ErrorCode.NOT_COORDINATOR] * ROOM
        assert backlog.takes(_asked("nobody", [], metadata="x" * 2_000))
        shards.store.gate.set()


async def test_what_comes_to_nothing_with_its_caller_makes_room_as_well() -> None:
    async with Shards([readers(OTHERS, ann=[0])]) as shards:
        service = await shards.serve(OTHERS)
        backlog = service._commits._backlog = Backlog(most=ROOM * (1 + WEIGHT_OF_ONE))
        shards.freshness.freeze()
        for number in range(2 * ROOM):
            stranger = Caller(f"stranger {number}")
            assert service.hear(stranger, OTHERS, registering(OTHERS, stranger.name))
            shards.commit(stranger, OTHERS, {orders(0): Position(7, 1)})
            assert stranger.judged == [], "it waits"
            service.closed(stranger, OTHERS)
        assert backlog._weight == 0
        shards.freshness.thaw()


async def test_a_mistake_of_ours_in_a_batch_leaves_nobody_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Shards([classic()]) as shards:
        service, backlog = await _serving(shards)
        answers: list[ErrorCode] = []
        judge = service._commits._judge

        def mistaken(commit: Commit, *rest: Any) -> None:
            if commit.connection == "guilty":
                raise ValueError("our own mistake")
            judge(commit, *rest)

        monkeypatch.setattr(service._commits, "_judge", mistaken)
        for name in ("before", "guilty", "behind"):
            assert service.commit(_asked(name, answers))
        await eventually(lambda: len(answers) == 3)
        assert answers == [ErrorCode.UNKNOWN_SERVER_ERROR] * 3
        assert backlog._weight == 0


def test_metadata_weighs_what_it_takes_and_one_commit_is_always_let_in() -> None:
    backlog = Backlog(most=10)
    long = _asked("ann", [], metadata="x" * 4_000)
    assert long.weight > 60
    assert backlog.takes(long) and not backlog.takes(_asked("ben", []))
    backlog.left(long)
    assert backlog.takes(_asked("ben", []))
