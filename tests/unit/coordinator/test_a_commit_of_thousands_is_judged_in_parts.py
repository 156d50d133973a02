"""A native commit of more partitions than are judged in one go is judged in parts, and answered once."""

from uuid import UUID

import pytest
from msgspec import json

from coordinator import door as doors
from coordinator.connections import MemberConnection
from coordinator.door import ConsumerDoor
from muster.kernel.error_codes import ErrorCode
from muster.kernel.shards import shard_of
from muster.messages.member import CommitOffsetsRequest, CommitOffsetsResponse
from muster.messages.partitions import Partition, Position, positions_by_topic
from runtime.ports import shard_lane
from tests.unit.coordinator.shards import KnowingNode, Shards, eventually, readers, registering
from tests.unit.coordinator_core.group import orders

KEY = "readers"
OWNED = range(10)
CLICKS = UUID(int=77)
CHARACTERS = 1_000


class Ann:
    """A member that owns OWNED of orders, on a connection of the door; four partitions are a portion."""

    def __init__(self, shards: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
        self._shards, self._patch = shards, monkeypatch
        self.answers: list[CommitOffsetsResponse] = []

    async def comes(self) -> "Ann":
        self.service = await self._shards.serve(KEY)
        self._patch.setattr(doors, "PORTION", 4)
        self.service._commits.portion = 4
        self.door = ConsumerDoor(KnowingNode(), {shard_lane(shard_of(KEY)): self.service})
        self.door._callers = self._shards.premises.callers
        admitted = self.door.admit({b"authorization": b"Bearer ann"}, "127.0.0.1", _send, self._say)
        assert isinstance(admitted, MemberConnection)
        self.connection = admitted
        self.door.register(admitted, registering(KEY, "ann"))
        await self._shards.settled(KEY)
        return self

    def _say(self, payload: bytes) -> bool:
        if b"CommitOffsetsResponse" in payload:
            self.answers.append(json.decode(payload, type=CommitOffsetsResponse))
        return True

    def commits(self, offset: int, numbers: range, *, of_clicks: int = 0) -> None:
        positions = {orders(one): Position(offset, 1) for one in numbers}
        positions |= {Partition("clicks", CLICKS, one): Position(offset, 1) for one in range(of_clicks)}
        asked = CommitOffsetsRequest(
            correlation_id=offset, consumer_id="ann", offset_info=positions_by_topic(positions)
        )
        self.door.commit(self.connection, asked, CHARACTERS)


async def _send(message: object) -> None: ...


async def test_all_of_it_is_stored_when_its_one_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Shards([readers(ann=OWNED)]) as shards:
        ann = await Ann(shards, monkeypatch).comes()
        ann.commits(7, OWNED)
        ann.commits(8, range(1))
        assert ann.connection.unanswered_commits == 2
        await eventually(lambda: len(ann.answers) == 2)
        assert [(one.correlation_id, one.error_code, one.refused) for one in ann.answers] == [
            (7, ErrorCode.NONE, ()),
            (8, ErrorCode.NONE, ()),
        ]
        assert shards.rows(KEY).offsets == {orders(0): 8} | {orders(one): 7 for one in OWNED if one}
        assert ann.connection.unanswered_characters == ann.connection.unanswered_commits == 0


async def test_refusals_of_all_parts_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Shards([readers(ann=OWNED)]) as shards:
        ann = await Ann(shards, monkeypatch).comes()
        ann.commits(7, range(12), of_clicks=5)
        await eventually(lambda: ann.answers)
        [answer] = ann.answers
        refused = {one.topic: [error.partition for error in one.partitions] for one in answer.refused}
        assert refused == {"clicks": [0, 1, 2, 3, 4], "orders": [10, 11]}
        assert set(shards.rows(KEY).offsets) == {orders(one) for one in OWNED}


async def test_what_refuses_a_part_refuses_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Shards([readers(ann=OWNED)]) as shards:
        ann = await Ann(shards, monkeypatch).comes()
        shards.store.gate.clear()
        ann.commits(6, range(1))
        await eventually(shards.store.at_the_gate.is_set)
        ann.commits(7, OWNED)
        await ann.service.give_up(None)
        assert [(one.correlation_id, one.error_code) for one in ann.answers] == [
            (6, ErrorCode.NOT_COORDINATOR),
            (7, ErrorCode.NOT_COORDINATOR),
        ]
        assert not ann.answers[1].refused
