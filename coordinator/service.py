"""This room is the coordinator of one shard of groups, from taking its lease to giving it up."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from coordinator.callers import Caller, Callers, Orders
from coordinator.cluster_view import ClusterView
from coordinator.commits import Commit, Commits
from coordinator.core.events import (
    ClassicRequest,
    ConnectionClosed,
    GroupEvent,
    Heard,
    ItemFailed,
    ItemFinished,
    Resumed,
    Sync,
    TopicsChanged,
)
from coordinator.core.memory import GroupState
from coordinator.core.proposal import Proposal
from coordinator.core.rebalance import interests
from coordinator.describing import DescribedGroup, ListedGroup, described, listed
from coordinator.liveness import Liveness
from coordinator.patterns import matches
from coordinator.requests import Requests
from coordinator.settings import CoordinatorSettings, read_settings
from coordinator.shards import shard_of
from coordinator.store import REBALANCE, GroupStore
from coordinator.subject import Groups, refusal
from groups.core.requests import KIND as REQUEST
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, elapsed_ms
from muster.messages.member import (
    LeaveRequest,
    PingResponse,
    RegisterConsumerRequest,
    StartFetcherResponse,
    StopFetcherResponse,
)
from muster.messages.partitions import Partition
from runtime import work
from runtime.ports import (
    EVERYTHING,
    SHARD_COUNT,
    Connection,
    ConnectionLost,
    Lane,
    LaneLost,
    NodeContext,
    shard_lane,
)

logger = logging.getLogger("muster.coordinator")
Result = TypeVar("Result")

MemberMessage = (
    RegisterConsumerRequest | PingResponse | StopFetcherResponse | StartFetcherResponse | LeaveRequest
)

PRELOADED_AT_ONCE = 100
"""Groups between which others of the node have their turn."""

HASTEN_PINGS_MS = 1_000
"""A shorter stop only delays pings; after a longer one members are asked before their own clocks are over."""

NOTHING_OPEN_MS = 1_000_000_000
"""How quiet a shard without open sockets is."""


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


def build(node: NodeContext) -> Mapping[str, "ShardService"]:
    """The services of all shards, by the name of their lane; the node calls this once."""
    premises = Premises(node, read_settings())
    return {shard_lane(shard): ShardService(shard, premises) for shard in range(SHARD_COUNT)}


class ShardService:
    """`runtime.ports.LaneService` of one shard; without a lane it serves nobody."""

    def __init__(self, shard: int, premises: Premises) -> None:
        self.shard = shard
        self.premises = premises
        self.accepting = False
        self._loaded = False
        self._orders = Orders(self._decide, self._add)
        self._groups = Groups(
            premises.node,
            premises.store,
            premises.settings.group,
            premises.view,
            premises.callers,
            self._orders,
        )
        self._liveness = Liveness(self._groups, self._orders)
        self._commits = Commits(
            self._groups, premises.store, self._turn_for_commits, self._orders.done, self._lives
        )
        self._requests = Requests(self._hand_in, premises.node)
        self._groups.on_refused(self._requests.refused)
        self._lane: Lane | None = None
        self._flushed_at = Instant(0)
        self._moved_at = Instant(0)
        self._finished: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        premises.view.on_topics_changed(self._topics_changed)

    # The lease comes and goes.

    @property
    def serving(self) -> bool:
        """True from taking the lease to giving it up; `accepting` is true when also the rows are loaded."""
        return self._lane is not None

    async def accept(self, lane: Lane) -> None:
        """Load every group of the shard, arm sessions in full, accept members."""
        self._lane = lane
        self._orders.forget()
        self._liveness.forget()
        self._groups.forget()
        rows, finished = await lane.read(self._load)
        if self._lane is not lane:
            return
        self._moved_at = self._flushed_at = self.premises.node.now()
        now = lane.now()
        for place, (key, group) in enumerate(rows.items(), start=1):
            if group is None:
                self._groups.leave_out(key)
            elif self._groups.preload(group, now):
                lane.hand_in(self._groups, key)
            if place % PRELOADED_AT_ONCE == 0:
                await asyncio.sleep(0)
                if self._lane is not lane:
                    return
        for item in finished:
            lane.hand_in(self._groups, item.key, _event_of(item))
        self._loaded = self.accepting = True

    def _load(self, connection: Connection) -> tuple[Mapping[str, GroupRows | None], list[work.FinishedItem]]:
        rows = self.premises.store.load_shard(connection, self.shard)
        return rows, work.finished(connection, REBALANCE, list(rows))

    async def wind_down(self) -> None:
        """Take no new member, write what is dirty."""
        self.accepting = False
        if self._lane is not None and self._commits.flush():
            await self._lane.submit_batch(self._commits)

    async def give_up(self, new_owner: str | None) -> None:
        """Another node serves these groups: show everybody there."""
        self._loaded = self.accepting = False
        self._lane = None
        self._finished.clear()
        for task in self._tasks:
            task.cancel()
        self._requests.forget()
        self._orders.forget()
        self._liveness.forget()
        self._commits.give_up()
        self._groups.forget()
        for caller in self.premises.callers.of_shard(self.shard):
            caller.hang_up(ErrorCode.NOT_COORDINATOR, new_owner or "")

    def freeze(self) -> None:
        """Nothing to do: turns and batches wait in the lane, and only what is durable is in an outbox."""

    def thaw(self, late_ms: int) -> None:
        """Nobody expires for time in which nothing could be heard."""
        if self._lane is None:
            return
        self._lane.postpone(late_ms)
        self._orders.release()
        if late_ms >= HASTEN_PINGS_MS:
            # Not for every hiccup: turns of ten thousand groups are a hiccup themselves.
            for key, state in self._groups.states.items():
                if state.memory.bound:
                    self._hand_in(key, Resumed(late_ms))

    def tick(self, now: Instant) -> None:
        """The committer's interval, and the sweep that finds what a lost wake-up would have told."""
        # A stop that nobody but a lane has noticed ends without a thaw.
        self._orders.release()
        self.premises.view.tick(now)
        if elapsed_ms(self._flushed_at, now) >= self.premises.settings.offset_commit_interval_ms:
            self._flushed_at = now
            if self._lane is not None and self._commits.flush():
                self._offer_commits()

    def woken(self, name: str, key: str) -> None:
        """Read again what the wake-up names."""
        if name in ("topics", "brokers", "cluster", EVERYTHING):
            self.premises.view.refresh()
        if name == "work":
            kind, _, group_id = key.partition(" ")
            if kind == REBALANCE and shard_of(group_id) == self.shard:
                self._look_for_finished({group_id})
            elif kind == REQUEST and shard_of(group_id) == self.shard and self._lane is not None:
                self._requests.look(self._lane, group_id)
        elif name == EVERYTHING:
            asked = {key for key, state in self._groups.states.items() if state.rows.handler_asked}
            self._look_for_finished(asked)

    def quiet_ms(self, now: Instant) -> int:
        """For how long no member has said anything but its ping answers."""
        if not self.premises.callers.any_of(self.shard):
            return NOTHING_OPEN_MS
        return elapsed_ms(self._moved_at, now)

    # What members say.

    def hear(self, caller: Caller, key: str, message: MemberMessage, client_host: str = "") -> bool:
        """A frame about group `key`. False: the caller has too much unanswered."""
        event = Heard(caller.id, message, client_host)
        if not isinstance(message, PingResponse):
            self._moved_at = self.premises.node.now()
        elif self._lane is not None and self._liveness.heard(self._lane, key, event):
            return True
        if isinstance(message, RegisterConsumerRequest) and self._stands_still:
            # Nothing is decided until the thaw, and whoever waits for it may come and go without end.
            parked = self._orders.park(caller.id, (key, event))
            return parked or self._orders.turn(caller.id, (key, event))
        return self._orders.turn(caller.id, (key, event))

    @property
    def _stands_still(self) -> bool:
        return self._lane is not None and self._lane.frozen

    def commit(self, commit: Commit) -> bool:
        """Offsets that the next batch writes. False: the caller has too much unanswered."""
        return self._orders.batch(commit.connection, commit)

    def _add(self, commit: Commit) -> None:
        self._commits.add(commit)
        if len(self._commits) == 1:
            # Those that follow are gathered with the first.
            self._offer_commits()

    def closed(self, caller: Caller, key: str) -> None:
        """A caller of group `key` is gone; what it said before still counts.

        But of a Register that is parked nobody can tell whether it was lost on its way; and unless it is a
        member's, what was said behind it comes to nothing without it.
        """
        if said := self._orders.parked(caller.id):
            state = self._groups.states.get(key)
            known = state is not None and said[0][1].message.consumer_id in state.rows.members
            if len(said) == 1 or not known:
                self._orders.forgo(caller.id)
                return
        self._orders.turn(caller.id, (key, ConnectionClosed(caller.id)), last=True)

    def owned(self, caller: Caller, key: str) -> Collection[Partition]:
        """The partitions that the member of a connection owns: so much may it say in one frame."""
        state = self._groups.states.get(key)
        member_id = state.memory.bound.get(caller.id) if state else None
        return state.rows.owned.get(member_id, {}).keys() if state and member_id else ()

    # What Kafka clients ask.

    def request(self, caller: Caller, key: str, event: ClassicRequest) -> None:
        """A JoinGroup, SyncGroup or LeaveGroup: its waiter is answered, now or later (conformance 1-8)."""
        error = self._refusal(key)
        if error is ErrorCode.NONE:
            self._moved_at = self.premises.node.now()
            if self._orders.turn(caller.id, (key, event)):
                return
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and isinstance(event, Sync):
            # Java's consumers fail when a Sync hears of loading (conformance 8).
            error = ErrorCode.REBALANCE_IN_PROGRESS
        caller.say(refusal(event, error))

    def _refusal(self, key: str) -> ErrorCode:
        if not key:
            return ErrorCode.INVALID_GROUP_ID
        if not self.serving:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if self.accepting else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def heartbeat(
        self, key: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode | None:
        """What answers a Heartbeat at once (conformance 7, 64 to 68); None: `heartbeat_later` can tell."""
        if self._lane is None or not key:
            return self._refusal(key)
        if self._lane.frozen or self._groups.must_be_loaded(key):
            return None
        if not self._loaded and key not in self._groups.states:
            # Nobody is to be scared into a rebalance because its group changes hands.
            return ErrorCode.NONE
        return self._liveness.heartbeat(self._lane, key, member_id, instance_id, generation)

    async def heartbeat_later(
        self, key: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """The same when time goes on again, or the group is loaded."""
        while (error := self.heartbeat(key, member_id, instance_id, generation)) is None:
            try:
                await self._turned(key)
            except NotServed as problem:
                return problem.error
        return error

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
        return tell(self._groups.states.get(key) or GroupState(GroupRows(key)))

    async def describe(self, key: str) -> DescribedGroup:
        """DescribeGroups of one group (conformance 140 to 142, 152)."""
        try:
            return await self.read(key, partial(described, key))
        except NotServed as problem:
            return DescribedGroup(key, problem.error)

    async def groups(self) -> list[ListedGroup]:
        """ListGroups of this shard (conformance 143, 144). Raises NotServed."""
        if not self.serving or not self._loaded:
            raise NotServed(self._refusal("any"))
        await self._prove()
        return list(listed(self._groups.states.values()))

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

    # What happens by itself.

    def _decide(self, said: tuple[str, GroupEvent]) -> None:
        self._hand_in(*said)

    def _hand_in(self, key: str, *events: GroupEvent) -> None:
        if self._lane is None:
            return
        try:
            self._lane.hand_in(self._groups, key, *events)
        except LaneLost:
            # `give_up` follows, and hangs up on everybody.
            logger.info("shard %d is lost", self.shard)

    def _lives(self, key: str, member_id: str) -> None:
        """A commit of a Kafka client was accepted: its session starts again (conformance 103)."""
        state = self._groups.states.get(key)
        if state is not None and self._lane is not None:
            state.classic.heard_at[member_id] = self._lane.now()

    def _turn_for_commits(self, key: str, events: Sequence[GroupEvent]) -> None:
        """Load, or begin, a group for which commits wait."""
        if self._lane is not None:
            self._start(self._take_turn_for_commits(self._lane, key, events))

    async def _take_turn_for_commits(self, lane: Lane, key: str, events: Sequence[GroupEvent]) -> None:
        try:
            await lane.submit_turn(self._groups, key, *events)
        except LaneLost:
            # `give_up` follows, and answers.
            return
        self._commits.turned(key)
        self._offer_commits()

    def _offer_commits(self) -> None:
        if self._lane is None:
            self._commits.give_up()
            return
        try:
            self._lane.offer_batch(self._commits)
        except LaneLost:
            # `give_up` follows; a member may ask the next owner at once.
            self._commits.give_up()

    def _topics_changed(self, names: frozenset[str]) -> None:
        for key, state in list(self._groups.states.items()):
            wanted, wildcards = interests(state.rows)
            touched = not wanted.isdisjoint(names)
            if touched or any(matches(pattern, name) for pattern in wildcards for name in names):
                self._hand_in(key, TopicsChanged())

    def _look_for_finished(self, keys: set[str]) -> None:
        """Read the work items of `keys`; those named while a read is under way are read after it."""
        running = bool(self._finished)
        self._finished |= keys
        if self._finished and not running and self._lane is not None:
            self._start(self._read_finished(self._lane))

    async def _read_finished(self, lane: Lane) -> None:
        try:
            while self._finished and self._lane is lane:
                keys = sorted(self._finished)
                items = await lane.read(partial(work.finished, kind=REBALANCE, keys=keys))
                self._finished.difference_update(keys)
                for item in items:
                    self._hand_in(item.key, _event_of(item))
        except (LaneLost, ConnectionLost) as problem:
            # The node wakes us once a second for an item that is done and not adopted.
            logger.info("finished work of shard %d: %s", self.shard, problem)
        finally:
            self._finished.clear()

    def _start(self, work_to_do: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work_to_do)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _event_of(item: work.FinishedItem) -> GroupEvent:
    if item.error:
        return ItemFailed(item.id, item.error)
    try:
        return ItemFinished(item.id, msgspec.convert(item.result, Proposal))
    except msgspec.ValidationError as problem:
        return ItemFailed(item.id, f"the handler's result cannot be read: {problem}")
