"""This room is the coordinator of one shard of groups, from taking its lease to giving it up."""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from coordinator.callers import Caller, Orders
from coordinator.cluster_view import Gone
from coordinator.commits import Commit, Commits
from coordinator.core.events import (
    ClassicRequest,
    ConnectionClosed,
    ConnectionId,
    GroupDeletion,
    GroupEvent,
    HangUp,
    Heard,
    ItemFailed,
    ItemFinished,
    Leave,
    OffsetDeletion,
    Say,
    Sync,
    TokenNarrowed,
    TopicsChanged,
    Waiter,
)
from coordinator.core.native.handle import may_subscribe
from coordinator.core.proposal import Proposal
from coordinator.core.rebalance import interests
from coordinator.housekeeping import Housekeeping
from coordinator.inner_seat import InnerSeat
from coordinator.leased import LeasedShard, NotServed, Premises
from coordinator.liveness import Liveness, beaten
from coordinator.pattern_news import tell_whose_match
from coordinator.requests import Requests
from coordinator.settings import read_settings
from coordinator.store import REBALANCE
from coordinator.subject import Groups, refusal
from coordinator.waiting import Waits
from groups.core.requests import KIND as REQUEST
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, elapsed_ms
from muster.kernel.scopes import Scope
from muster.kernel.shards import shard_of
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

__all__ = ["NotServed", "Premises", "ShardService", "build"]
logger = logging.getLogger("muster.coordinator")
Result = TypeVar("Result")

MemberMessage = (
    RegisterConsumerRequest | PingResponse | StopFetcherResponse | StartFetcherResponse | LeaveRequest
)

_NONE = ErrorCode.NONE

PRELOADED_AT_ONCE = 100
"""Groups between which others of the node have their turn."""

NOTHING_OPEN_MS = 1_000_000_000
"""How quiet a shard without open sockets is."""


def build(node: NodeContext) -> Mapping[str, "ShardService"]:
    """The services of all shards, by the name of their lane; the node calls this once."""
    premises = Premises(node, read_settings())
    return {shard_lane(shard): ShardService(shard, premises) for shard in range(SHARD_COUNT)}


class ShardService(LeasedShard):
    """`runtime.ports.LaneService` of one shard; without a lane it serves nobody."""

    def __init__(self, shard: int, premises: Premises) -> None:
        super().__init__(shard, premises)
        self._orders = Orders(self._decide, self._add, premises.backlog)
        self._groups = Groups(
            premises.node,
            premises.store,
            premises.settings.group,
            premises.view,
            premises.callers,
            self._orders,
            premises.speech,
        )
        self._liveness = Liveness(self._groups, self._orders)
        self._commits = Commits(
            self._groups,
            premises.store,
            self._turn_for_commits,
            self._orders.done,
            self._live,
            premises.speech.answer,
            premises.backlog,
        )
        self._waits = Waits(self._groups, premises.store)
        self._requests = Requests(self._hand_in, premises.node)
        self._groups.on_refused(self._requests.refused)
        self._inner_seat = InnerSeat(premises.callers, shard)
        self._groups.ask_who_waits(self._inner_seat.is_waited_at)
        self._housekeeping = Housekeeping(shard, self._groups, premises, self._hand_in)
        self._flushed_at = Instant(0)
        self._moved_at = Instant(0)
        self._moved = False
        self._finished: set[str] = set()
        self._reading: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        premises.view.on_topics_changed(self._topics_changed)

    # The lease comes and goes.

    async def accept(self, lane: Lane) -> None:
        """Load every group of the shard, arm sessions in full, accept members."""
        self._lane = lane
        # A batch that was on its way when the shard was given up may have asked for a turn since.
        self._commits.give_up(self._orders.forget())
        self._liveness.forget()
        self._groups.forget()
        self._waits.forget()
        rows, finished = await lane.read(self._load)
        if self._lane is not lane:
            return
        self._moved_at = self._flushed_at = self.premises.node.now()
        self._housekeeping.begin(self._moved_at)
        now = lane.now()
        for place, (key, group) in enumerate(rows.items(), start=1):
            # One that cannot be read takes a turn as well, whose refusal tells people of it.
            if self._groups.leave_out(key) if group is None else self._groups.preload(group, now):
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
        self._reading = None
        for task in self._tasks:
            task.cancel()
        self._requests.forget()
        held = self._orders.forget()
        self._liveness.forget()
        self._commits.give_up(held)
        self._groups.forget()
        self._waits.forget()
        for caller in self.premises.callers.of_shard(self.shard):
            self.premises.speech.say(HangUp(caller.id, ErrorCode.NOT_COORDINATOR, new_owner or ""))

    def freeze(self) -> None:
        """Nothing to do: turns and batches wait in the lane, and only what is durable is in an outbox."""

    def thaw(self, late_ms: int) -> None:
        """Nobody expires for time in which nothing could be heard."""
        if self._lane is None:
            return
        self._lane.postpone(late_ms)
        self._orders.release()
        for key in self._groups.time_stood_still(late_ms):
            self._hand_in(key)

    def tick(self, now: Instant) -> None:
        """The committer's interval, and the sweep that finds what a lost wake-up would have told."""
        # A stop that nobody but a lane has noticed ends without a thaw.
        self._orders.release()
        if self._moved:
            self._moved, self._moved_at = False, now
        self.premises.view.tick(now)
        if elapsed_ms(self._flushed_at, now) >= self.premises.settings.offset_commit_interval_ms:
            self._flushed_at = now
            if self._lane is not None and self._commits.flush():
                self._offer_commits()
        if self._lane is not None and self._waits.look(now, self._lane.now()):
            with suppress(LaneLost):
                self._lane.offer_batch(self._waits)
        self._look_around(now)

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
        return 0 if self._moved else elapsed_ms(self._moved_at, now)

    # What members say.

    def hear(self, caller: Caller, key: str, message: MemberMessage, client_host: str = "") -> bool:
        """A frame about group `key`. False: the caller has too much unanswered."""
        event = Heard(caller.id, message, client_host)
        if not isinstance(message, PingResponse):
            self._moved = True
        elif self._lane is not None and self._liveness.heard(self._lane, key, event):
            return True
        if isinstance(message, RegisterConsumerRequest) and self._stands_still:
            # Nothing is decided until the thaw, and whoever waits for it may come and go without end.
            parked = self._orders.park(caller.id, (key, event))
            return parked or self._orders.turn(caller.id, (key, event))
        return self._orders.turn(caller.id, (key, event))

    @property
    def _stands_still(self) -> bool:
        return self._lane is not None and self._lane.answering_now() is None

    def commit(self, commit: Commit) -> bool:
        """Offsets that the next batch writes, or an answer. False: the caller has too much unanswered."""
        if not self._commits.has_room_for(commit) or self._orders.batch(commit.connection, commit):
            return True
        self._commits.forgo(commit)
        return False

    def _add(self, commit: Commit) -> None:
        if self._commits.add(commit):
            self._offer_commits()

    def closed(self, caller: Caller, key: str) -> None:
        """A caller of group `key` is gone; what it said before still counts.

        But of a Register that is parked nobody can tell whether it was lost on its way; and unless it is a
        member's, what was said behind it comes to nothing without it.
        """
        if said := self._orders.parked(caller.id):
            state = self._groups.states.get(key)
            known = state is not None and said[0][1].message.consumer_id in state.rows.members
            if len(said) == 1 or not known or not self._orders.keep(caller.id):
                self._forgo(caller, said)
                return
        self._orders.turn(caller.id, (key, ConnectionClosed(caller.id)), last=True)

    def owned(self, caller: Caller, key: str) -> Collection[Partition]:
        """What the member of a connection owns or stands by for: so much may it say in one frame."""
        state = self._groups.states.get(key)
        member_id = state.memory.bound.get(caller.id) if state else None
        if state is None or member_id is None:
            return ()
        owned = state.rows.owned.get(member_id, {}).keys()
        standbys = state.rows.standbys.get(member_id)
        return owned | standbys if standbys else owned

    def token_is_good_for(self, caller: Caller, key: str, topics: Scope) -> None:
        """The door looked at a token that names topics: its member loses what is not among them any more."""
        state = self._groups.states.get(key)
        member_id = state.memory.bound.get(caller.id) if state else None
        if state is None or member_id is None:
            return
        wishes = state.rows.members[member_id].topic_count
        if not wishes or not all(may_subscribe(topics, wish) for wish in wishes):
            self._hand_in(key, TokenNarrowed(caller.id, topics))

    # What Kafka clients ask.

    def request(self, caller: Caller, key: str, event: ClassicRequest) -> None:
        """A JoinGroup, SyncGroup or LeaveGroup: its waiter is answered, now or later (conformance 1-8)."""
        error = _NONE if self.accepting and key else self._refusal(key)
        if error is _NONE:
            # Not the instant: thousands ask together, and the next tick knows it.
            self._moved = True
            # While nothing is decided whoever waits may come and go without end, as those who register.
            if self._stands_still and self._orders.park(caller.id, (key, event)):
                return
            if self._orders.turn(caller.id, (key, event)):
                return
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and isinstance(event, Sync):
            # Java's consumers fail when a Sync hears of loading (conformance 8).
            error = ErrorCode.REBALANCE_IN_PROGRESS
        self.premises.speech.say(Say(caller.id, refusal(event, error)))

    def deserted(self, caller: Caller) -> None:
        """A Kafka client's connection is gone; what it said still counts.

        But of what is parked nobody can tell whether it was lost on its way: unless a member leaves by it, or
        a commit is behind it, it comes to nothing; so it does where too much of such is kept.
        """
        if said := self._orders.parked(caller.id):
            counts = any(isinstance(one, Commit) or self._leaves(*one) for one in said)
            if not counts or not self._orders.keep(caller.id):
                self._forgo(caller, said)

    def _forgo(self, caller: Caller, said: Sequence[Any]) -> None:
        """What was parked comes to nothing with its caller, as if it was lost on its way."""
        self._orders.forgo(caller.id)
        for one in said:
            if isinstance(one, Commit):
                self._commits.forgo(one)

    def _leaves(self, key: str, event: GroupEvent) -> bool:
        """Whether by this a member leaves a group that is loaded."""
        state = self._groups.states.get(key)
        if not isinstance(event, Leave) or state is None or state.rows.classic is None:
            return False
        members, instances = state.rows.classic.members, state.classic.instances
        return any(one.member_id in members or one.group_instance_id in instances for one in event.members)

    def heartbeat(
        self, key: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode | None:
        """What answers a Heartbeat at once (conformance 7, 64 to 68); None: `heartbeat_later` can tell."""
        if self._lane is None or not key:
            return self._refusal(key)
        now = self._lane.answering_now()
        if now is None:
            return None
        state = self._groups.states.get(key)
        if state is not None:
            return beaten(state, now, member_id, instance_id, generation)
        if self._groups.must_be_loaded(key):
            return None
        # Nobody is to be scared into a rebalance because its group changes hands.
        return ErrorCode.UNKNOWN_MEMBER_ID if self._loaded else ErrorCode.NONE

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

    async def delete_group(self, key: str) -> ErrorCode:
        """DeleteGroups of one group (conformance 138, 139)."""
        error = self._refusal(key)
        if error is not ErrorCode.NONE:
            return error

        def send(connection: ConnectionId, waiter: Waiter) -> None:
            # Tools delete thousands at once.
            self._hand_in(key, GroupDeletion(connection, waiter), sharing=True)

        return (await self._inner_seat.ask(send)).error

    async def delete_offsets(
        self, key: str, partitions: Sequence[Partition]
    ) -> Mapping[Partition, ErrorCode] | ErrorCode:
        """OffsetDelete: what is refused of `partitions`, or why all of it is (conformance 126 to 129)."""
        error = self._refusal(key)
        if error is not ErrorCode.NONE:
            return error

        def send(connection: ConnectionId, waiter: Waiter) -> None:
            self._hand_in(key, OffsetDeletion(connection, waiter, tuple(partitions)))

        answer = await self._inner_seat.ask(send)
        return answer.refused if answer.error is ErrorCode.NONE else answer.error

    # What happens by itself.

    def _decide(self, said: tuple[str, GroupEvent]) -> None:
        self._hand_in(said[0], said[1])

    def _hand_in(self, key: str, *events: GroupEvent, sharing: bool = False) -> None:
        if self._lane is None:
            return
        hand_in = self._lane.hand_in_sharing if sharing else self._lane.hand_in
        try:
            hand_in(self._groups, key, *events)
        except LaneLost:
            # `give_up` follows, and hangs up on everybody.
            logger.info("shard %d is lost", self.shard)

    def _live(self, heard: Sequence[tuple[str, str]]) -> None:
        """Commits of Kafka clients were accepted: their sessions start again (conformance 103)."""
        if self._lane is None:
            return
        now, states = self._lane.now(), self._groups.states
        for key, member_id in heard:
            state = states.get(key)
            if state is not None:
                state.classic.heard_at[member_id] = now

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
            self._commits.turn_away()
            return
        try:
            self._lane.offer_batch(self._commits)
        except LaneLost:
            # `give_up` follows; a member may ask the next owner at once.
            self._commits.turn_away()

    def _topics_changed(self, names: frozenset[str], gone: Gone) -> None:
        if self._housekeeping.are_gone(gone):
            self._look_around(self.premises.node.now())
        by_pattern: dict[str, frozenset[str]] = {}
        for key, state in list(self._groups.states.items()):
            wanted, wildcards = interests(state.rows)
            if not wanted.isdisjoint(names):
                self._hand_in(key, TopicsChanged())
            elif wildcards:
                by_pattern[key] = wildcards
        if by_pattern:
            self._start(tell_whose_match(by_pattern, names, lambda key: self._hand_in(key, TopicsChanged())))

    def _look_around(self, now: Instant) -> None:
        if self._loaded and self._lane is not None and self._housekeeping.is_due(now):
            self._start(self._housekeeping.look(self._lane))

    def _look_for_finished(self, keys: set[str]) -> None:
        """Read the work items of `keys`; those named while a read is under way are read after it."""
        self._finished |= keys
        reading = self._reading is not None and not self._reading.done()
        if self._finished and not reading and self._lane is not None:
            self._reading = self._start(self._read_finished(self._lane))

    async def _read_finished(self, lane: Lane) -> None:
        try:
            while self._finished:
                # Before the read: what ends while it is under way may not be seen by it.
                keys, self._finished = sorted(self._finished), set()
                items = await lane.read(partial(work.finished, kind=REBALANCE, keys=keys))
                for item in items:
                    self._hand_in(item.key, _event_of(item))
        except (LaneLost, ConnectionLost) as problem:
            # The node wakes us once a second for an item that is done and not adopted.
            logger.info("finished work of shard %d: %s", self.shard, problem)
            self._finished.clear()

    def _start(self, work_to_do: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work_to_do)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _event_of(item: work.FinishedItem) -> GroupEvent:
    if item.error:
        return ItemFailed(item.id, item.error)
    try:
        return ItemFinished(item.id, msgspec.convert(item.result, Proposal))
    except msgspec.ValidationError as problem:
        return ItemFailed(item.id, f"the handler's result cannot be read: {problem}")
