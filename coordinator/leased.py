"""This room is a shard whose lease comes and goes: who is served now, and what is told of its groups."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from coordinator.backlog import Backlog
from coordinator.callers import Callers
from coordinator.cluster_view import ClusterView
from coordinator.core.memory import GroupState
from coordinator.describing import DescribedGroup, ListedGroup, described, listed
from coordinator.settings import CoordinatorSettings
from coordinator.speech import Speech
from coordinator.store import GroupStore
from coordinator.subject import Groups
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from runtime.ports import ConnectionLost, Lane, LaneLost, NodeContext

Result = TypeVar("Result")


class NotServed(Exception):
    """A question that cannot be answered here now, and the error that says so."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class Premises:
    """What the shards of one node share: who speaks to it, its view of the cluster, settings, the store."""

    def __init__(self, node: NodeContext, settings: CoordinatorSettings) -> None:
        self.node = node
        self.settings = settings
        self.view = ClusterView(node)
        self.store = GroupStore(node.node)
        self.callers = Callers()
        self.speech = Speech(self.callers, node.now)
        self.backlog = Backlog()


class LeasedShard:
    """One shard of groups; without a lane it serves nobody."""

    _groups: Groups

    def __init__(self, shard: int, premises: Premises) -> None:
        self.shard = shard
        self.premises = premises
        self.accepting = False
        self._loaded = False
        self._lane: Lane | None = None

    @property
    def serving(self) -> bool:
        """True from taking the lease to giving it up; `accepting` is true when also the rows are loaded."""
        return self._lane is not None

    def _refusal(self, key: str) -> ErrorCode:
        if not key:
            return ErrorCode.INVALID_GROUP_ID
        if not self.serving:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if self.accepting else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    async def read(self, key: str, tell: Callable[[GroupState], Result]) -> Result:
        """What `tell` says of a group, when it is proved that nobody else wrote it since this was asked.

        A group that does not exist is one without members and offsets, of version 0. Raises NotServed.
        """
        error = self._refusal(key)
        if error is not ErrorCode.NONE:
            raise NotServed(error)
        await self._prove()
        while self._groups.must_be_loaded(key):
            await self._turned(key)
            # The shard may have come and gone meanwhile, and its cache with it.
            await self._prove()
        return tell(self._groups.states.get(key) or GroupState(GroupRows(key)))

    async def describe(self, key: str) -> DescribedGroup:
        """DescribeGroups of one group (conformance 140 to 142, 152)."""
        try:
            return await self.read(key, partial(described, key))
        except NotServed as problem:
            return DescribedGroup(key, problem.error)

    async def groups(self) -> Iterable[ListedGroup]:
        """ListGroups of this shard, each made as it is told (conformance 143, 144). Raises NotServed."""
        if not self.serving or not self._loaded:
            raise NotServed(self._refusal("any"))
        await self._prove()
        return listed(tuple(self._groups.states.values()))

    async def _prove(self) -> None:
        """Return when it is proved that nobody else has written here."""
        while True:
            lane = self._lane
            if lane is None:
                raise NotServed(ErrorCode.NOT_COORDINATOR)
            try:
                await lane.prove()
            except (LaneLost, ConnectionLost) as problem:
                raise NotServed(ErrorCode.NOT_COORDINATOR) from problem
            if self._lane is lane and not lane.frozen:
                if not self._loaded:
                    raise NotServed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                return

    async def _turned(self, key: str) -> None:
        """Return after a turn of this group, which loads it and waits while time stands still."""
        if self._lane is None:
            raise NotServed(ErrorCode.NOT_COORDINATOR)
        try:
            await self._lane.submit_turn(self._groups, key)
        except LaneLost as problem:
            raise NotServed(ErrorCode.NOT_COORDINATOR) from problem
        if self._groups.must_be_loaded(key):
            raise NotServed(ErrorCode.COORDINATOR_NOT_AVAILABLE)
