"""This room runs SDK members without brokers, and checks what must hold after any kill, pause or outage.

Their fetchers find no leader; what they would fetch, where they begin and what they commit is all there.
"""

import asyncio
from collections.abc import Collection

from muster.client.conversation import Conversation
from muster.client.core.wishes import Wishes
from muster.client.errors import CommitFailed
from muster.client.fetching import FetchOptions
from muster.client.tenure import Tenure
from muster.messages.member import TopicCount
from tests.integration.coordinator.control_plane import PATIENCE_S, ControlPlane

WORK_EVERY_S = 0.03


class FleetMember:
    """One member that "consumes" one record of each partition a round, and commits it."""

    def __init__(self, fleet: "Fleet", consumer_id: str, session_timeout_ms: int) -> None:
        self._fleet = fleet
        wishes = Wishes(
            group_id=fleet.group,
            consumer_id=consumer_id,
            token=f"{consumer_id}-" + "t" * 32,
            topic_count=(TopicCount(fleet.topic),),
            session_timeout_ms=session_timeout_ms,
            auto_offset_reset="earliest",
        )
        nodes = list(fleet.plane.addresses.values())
        self.conversation = Conversation(wishes, nodes, fleet.token, FetchOptions("fleet"))
        self.consumer_id = consumer_id
        self.tenures: list[Tenure] = []
        self._tasks = [
            asyncio.create_task(self.conversation.run()),
            asyncio.create_task(self._work()),
        ]

    def fetches(self) -> set[int]:
        """The partitions that it fetches now."""
        return {tenure.partition for tenure in self.conversation.fetching.tenures()}

    async def vanish(self) -> None:
        """As kill -9 does: the socket breaks, nothing is said."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._fleet.members.pop(self.consumer_id, None)

    async def _work(self) -> None:
        while True:
            for tenure in list(self.conversation.fetching.tenures()):
                if not any(tenure is known for known in self.tenures):
                    self.tenures.append(tenure)
                    self._fleet.began(tenure)
                tenure.delivered_to = max(tenure.delivered_to, 0) + 1
                tenure.finished_to = tenure.delivered_to
            try:
                await self.conversation.commit()
            except CommitFailed as refusal:
                self._fleet.refusals.append(str(refusal))
            for tenure in self.conversation.fetching.tenures():
                self._fleet.acknowledged(tenure)
            await asyncio.sleep(WORK_EVERY_S)


class Fleet:
    """The members of one group, the commits that were acknowledged to them, and what went wrong."""

    def __init__(self, plane: ControlPlane, group: str, topic: str, partitions: int) -> None:
        self.plane = plane
        self.group = group
        self.topic = topic
        self.partitions = partitions
        self.token = plane.token()
        self.members: dict[str, FleetMember] = {}
        self.refusals: list[str] = []
        self.faults: list[str] = []
        self.durable: dict[int, int] = {}

    def join(self, *consumer_ids: str, session_timeout_ms: int = 3_000) -> None:
        """Start members."""
        for consumer_id in consumer_ids:
            self.members[consumer_id] = FleetMember(self, consumer_id, session_timeout_ms)

    def began(self, tenure: Tenure) -> None:
        """A member begins to fetch a partition: behind no commit that was acknowledged."""
        begins_at = max(tenure.delivered_to, 0)
        if begins_at < self.durable.get(tenure.partition, 0):
            text = f"{tenure} begins at {begins_at}, acknowledged was {self.durable[tenure.partition]}"
            self.faults.append(text)

    def acknowledged(self, tenure: Tenure) -> None:
        """The coordinator said that a commit is durable."""
        if tenure.committed_to > self.durable.get(tenure.partition, -1):
            self.durable[tenure.partition] = tenure.committed_to

    async def settles(self, within_s: float = PATIENCE_S, *, moved_on: bool = True) -> None:
        """Every partition is fetched by exactly one live member, as its row says, and commits go on.

        Also: no acknowledged commit is lost, and no member began behind one.
        """
        until = asyncio.get_running_loop().time() + within_s
        before = dict.fromkeys(range(self.partitions), -1) | self.durable if moved_on else {}
        while (fault := await self._unsettled(before)) and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.05)
        assert not fault, f"not settled within {within_s} s: {fault}"
        assert not self.faults, self.faults

    async def _unsettled(self, before: dict[int, int]) -> str:
        fetched = [number for member in self.members.values() for number in member.fetches()]
        if sorted(fetched) != list(range(self.partitions)):
            return f"fetched are {sorted(fetched)} by {list(self.members)}"
        owners = await asyncio.to_thread(self.plane.owners, self.group)
        if (
            any(
                number not in self.members[owners.get(number, "")].fetches()
                for number in fetched
                if owners.get(number) in self.members
            )
            or len(owners) != self.partitions
        ):
            return f"rows are {owners}"
        phase = await asyncio.to_thread(self.plane.phase, self.group)
        if phase != "Stable":
            return f"the group is {phase}"
        stuck = [number for number in before if self.durable.get(number, -1) <= before[number]]
        if stuck:
            return f"no commit went through for {stuck}"
        durable = dict(self.durable)
        committed = await asyncio.to_thread(self.plane.committed, self.group)
        lost = {number: offset for number, offset in durable.items() if committed.get(number, -1) < offset}
        return f"acknowledged {lost}, stored {committed}" if lost else ""

    def is_shared(self, each: int) -> bool:
        """Whether every member fetches so many."""
        return all(len(member.fetches()) == each for member in self.members.values())

    def begun(self, consumer_ids: Collection[str] | None = None) -> int:
        """How many tenures these members have begun so far."""
        wanted = self.members if consumer_ids is None else consumer_ids
        return sum(len(self.members[consumer_id].tenures) for consumer_id in wanted)

    async def end(self) -> None:
        """All members vanish."""
        for member in list(self.members.values()):
            await member.vanish()
