"""This room runs members of groups of any type over a node's Kafka door, by frames of their own making."""

import asyncio
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from muster.kafkawire.api_table import ApiKey, part, request_class
from tests.unit.gateway.doors import KEY, Peer

LONG = timedelta(seconds=60)
REBALANCE_IN_PROGRESS = 27


class PoolMember:
    """One member, which says nothing by itself; what it joined last stands in `joined`."""

    def __init__(
        self, peer: Peer, protocol_type: str, metadata: bytes = b"", session: timedelta = LONG
    ) -> None:
        self.peer = peer
        self.member_id = ""
        self.metadata = metadata
        self.joined: Any = None
        self.given: bytes = b""
        self._type = protocol_type
        self._session = session

    @property
    def leads(self) -> bool:
        return bool(self.joined.leader == self.member_id)

    @property
    def told(self) -> dict[str, bytes]:
        """What the coordinator listed with its last Join: the leader's alone is not empty."""
        return {one.member_id: bytes(one.metadata) for one in self.joined.members}

    def sends_join(self) -> None:
        """Join with what it has to say; the answer may be held back."""
        protocol = part(request_class(ApiKey.JOIN_GROUP, 9), "JoinGroupRequestProtocol")
        self.peer.send(
            ApiKey.JOIN_GROUP,
            9,
            group_id=KEY,
            session_timeout=self._session,
            rebalance_timeout=LONG,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type=self._type,
            protocols=(protocol(name="sticky", metadata=self.metadata),),
        )

    async def asks_to_join(self) -> None:
        """Get an id if it has none, then send the Join that counts."""
        if not self.member_id:
            self.sends_join()
            self.member_id = (await self.peer.hear()).member_id
        self.sends_join()

    async def hears_of_join(self) -> int:
        """The error of the answer to the last Join."""
        self.joined = await self.peer.hear()
        return int(self.joined.error_code)

    def sends_sync(self, shares: Mapping[str, bytes] | None = None) -> None:
        """Ask for the share; the leader brings all of them."""
        given = part(request_class(ApiKey.SYNC_GROUP, 5), "SyncGroupRequestAssignment")
        self.peer.send(
            ApiKey.SYNC_GROUP,
            5,
            group_id=KEY,
            generation_id=self.joined.generation_id,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type=self._type,
            protocol_name="sticky",
            assignments=tuple(
                given(member_id=name, assignment=what) for name, what in (shares or {}).items()
            ),
        )

    async def hears_of_sync(self) -> int:
        """The error of the answer to the last Sync; what was given is kept."""
        answer = await self.peer.hear()
        self.given = bytes(answer.assignment)
        return int(answer.error_code)

    async def beats(self) -> int:
        """A Heartbeat of the generation that it joined last."""
        self.peer.sends_heartbeat(self.joined)
        return int((await self.peer.hear()).error_code)

    async def commits(self, offset: int, generation: int | None = None) -> int:
        """Commit of the first partition of `orders`, as of its own generation unless told otherwise."""
        shape = request_class(ApiKey.OFFSET_COMMIT, 9)
        place, named = part(shape, "OffsetCommitRequestPartition"), part(shape, "OffsetCommitRequestTopic")
        one = place(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        answer = await self.peer.ask(
            ApiKey.OFFSET_COMMIT,
            9,
            group_id=KEY,
            generation_id_or_member_epoch=self.joined.generation_id if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=None,
            topics=(named(name="orders", partitions=(one,)),),
        )
        return int(answer.topics[0].partitions[0].error_code)

    async def leaves(self) -> None:
        who = part(request_class(ApiKey.LEAVE_GROUP, 5), "MemberIdentity")
        answer = await self.peer.ask(
            ApiKey.LEAVE_GROUP,
            5,
            group_id=KEY,
            members=(who(member_id=self.member_id, group_instance_id=None, reason="stopped"),),
        )
        assert [int(one.error_code) for one in answer.members] == [0]


async def join_together(*members: PoolMember) -> PoolMember:
    """All join one generation, those who are members already when they hear of it; the leader."""
    if not any(member.member_id for member in members):
        await members[0].asks_to_join()
        assert await members[0].hears_of_join() == 0
        if len(members) == 1:
            return members[0]
    for member in members:
        if not member.member_id:
            await member.asks_to_join()
    for member in members:
        if member.joined is not None:
            async with asyncio.timeout(10):
                while await member.beats() != REBALANCE_IN_PROGRESS:
                    await asyncio.sleep(0.001)
            member.sends_join()
    for member in members:
        assert await member.hears_of_join() == 0
    assert len({member.joined.generation_id for member in members}) == 1
    [leader] = [member for member in members if member.leads]
    return leader


class Worker(PoolMember):
    """A worker of a pool as Connect's: it says which tasks it has, so that it may keep them."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer, "connect", self.says([]))

    @staticmethod
    def says(tasks: list[str]) -> bytes:
        return json.dumps({"url": "http://worker:8083", "assignment": tasks}).encode()

    @property
    def tasks(self) -> list[str]:
        return list(json.loads(self.given)) if self.given else []

    def keeps(self) -> None:
        """Say with the next Join what it was given with the last."""
        self.metadata = self.says(self.tasks)

    def deals(self, tasks: list[str]) -> dict[str, bytes]:
        """As the leader: everybody keeps up to an even share of what it says it has; the rest fills up."""
        said = {name: json.loads(metadata)["assignment"] for name, metadata in self.told.items()}
        most = -(-len(tasks) // len(said))
        shares = {name: [one for one in had if one in tasks][:most] for name, had in said.items()}
        kept = {one for share in shares.values() for one in share}
        for task in (one for one in tasks if one not in kept):
            min(sorted(shares.items()), key=lambda item: len(item[1]))[1].append(task)
        return {name: json.dumps(share).encode() for name, share in shares.items()}


async def share_out(tasks: list[str], *workers: Worker) -> None:
    """A whole rebalance of a pool."""
    await join_together(*workers)
    await hand_out(tasks, *workers)


async def hand_out(tasks: list[str], *workers: Worker) -> None:
    """The second phase: whoever leads deals, and everybody gets a share."""
    for worker in workers:
        worker.sends_sync(worker.deals(tasks) if worker.leads else None)
    for worker in workers:
        assert await worker.hears_of_sync() == 0
        worker.keeps()
