"""This room is a simulated node that owns the group: it runs the coordinator's real core, turn by turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator.callers import Orders, Way
from coordinator.core import offsets
from coordinator.core.decide import decide, hear_at_once, load
from coordinator.core.draft import GroupDecision
from coordinator.core.events import (
    ConnectionClosed,
    ConnectionId,
    GroupEvent,
    HangUp,
    Heard,
    ItemFinished,
    Postponed,
    Say,
    Saying,
)
from coordinator.core.memory import GroupState
from coordinator.core.native import frames, sessions
from groups.core import records
from muster.kernel.instants import Instant
from muster.messages.member import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    FromMember,
    PingResponse,
    StopFetcherResponse,
)
from muster.messages.partitions import Partition, each_position
from tests.simulation.native.network import Connection, Truth
from tests.simulation.native.world import Clock

if TYPE_CHECKING:
    from tests.simulation.native.cluster import Cluster

LATE_MS = 100


@dataclass
class _Commit:
    connection: Connection
    request: CommitOffsetsRequest
    truth: Truth
    arrival: int


class Owner:
    """A node with the lease of an epoch. `status`: up, frozen, paused, over."""

    def __init__(self, cluster: Cluster, epoch: int) -> None:
        self.cluster, self.world, self.epoch = cluster, cluster.world, epoch
        self.clock = Clock(self.world)
        self.status = "up"
        self.state: GroupState
        self.loses_next_frames = False
        self.loses_next_turn = False
        self.connections: dict[ConnectionId, Connection] = {}
        self._inbox: deque[GroupEvent | _Commit] = deque()
        self._arrivals = 0
        self._orders = Orders()
        self._in_turn = False
        self._meanwhile: dict[ConnectionId, tuple[Heard, Instant]] = {}
        self._acknowledged: dict[Partition, tuple[str, int, int]] = {}
        self._busy = False
        self._tick_at: float | None = None
        self._stopped_at = 0.0
        self._load({})
        self._committer()
        self._sweep()

    # -- what reaches it --------------------------------------------------------------------

    def frame_arrived(self, connection: Connection, message: FromMember, truth: Truth) -> None:
        self.connections.setdefault(ConnectionId(connection.id), connection)
        self._arrivals += 1
        who = ConnectionId(connection.id)
        if isinstance(message, CommitOffsetsRequest):
            self._send(who, Way.BATCH, _Commit(connection, message, truth, self._arrivals))
            return
        if isinstance(message, PingResponse | StopFetcherResponse):
            self.cluster.truth[id(message)] = (message, truth, self._arrivals)
        heard = Heard(who, message)  # type: ignore[arg-type]
        if not isinstance(message, PingResponse) or self.status != "up":
            self._send(who, Way.TURN, heard)
        elif self._in_turn:
            self._meanwhile[who] = (heard, self.clock.now())
        else:
            self._hear_at_once(heard, self.clock.now())

    def _hear_at_once(self, heard: Heard, at: Instant) -> None:
        """As coordinator.liveness: beside the lane, from memory."""
        world = self.world
        repair = not self._orders.waits_for_a_turn(heard.connection)
        decision = hear_at_once(self.state, heard, at, world.settings, world.surroundings, repair=repair)
        self._check(decision, (heard,))
        self.state = decision.state
        self._speak(decision)

    def _turn_over(self) -> None:
        self._in_turn = False
        meanwhile, self._meanwhile = self._meanwhile, {}
        for heard, at in meanwhile.values():
            self._hear_at_once(heard, at)

    def connection_lost(self, connection: Connection) -> None:
        who = ConnectionId(connection.id)
        self._send(who, Way.TURN, ConnectionClosed(who))

    def _send(self, who: ConnectionId, way: Way, what: GroupEvent | _Commit) -> None:
        assert self._orders.send(who, way, lambda: self._receive(what))

    def _done(self, events: Iterable[GroupEvent]) -> None:
        for event in events:
            if isinstance(event, Heard | ConnectionClosed):
                self._orders.done(event.connection)

    def event(self, event: GroupEvent) -> None:
        """Something that the world tells every owner."""
        self._receive(event)

    def _receive(self, event: GroupEvent | _Commit) -> None:
        if self.status == "over":
            return
        self._inbox.append(event)
        self._wake()

    def _wake(self) -> None:
        if self.status == "up" and not self._busy and self._inbox:
            self._busy = True
            self.world.soon(self._work, 3)

    # -- faults -----------------------------------------------------------------------------

    def crash(self) -> None:
        """kill −9: memory and sockets are gone."""
        self.status = "over"
        for connection in self.connections.values():
            connection.break_link(200)

    def stop(self, status: str) -> None:
        """SIGSTOP (`paused`), or PostgreSQL out of reach (`frozen`)."""
        self.status = status
        self._stopped_at = self.world.now

    def go_on(self) -> None:
        """It runs again; without its lease it finds that out at once, but may say one thing before."""
        if self.status not in ("paused", "frozen"):
            return
        late = int(self.world.now - self._stopped_at)
        if self.epoch != self.world.database.epoch:
            if self.status == "paused":
                self._speak_once_from_an_old_cache()
            self.give_up()
            return
        self.status = "up"
        self._busy = True
        self._inbox.appendleft(Postponed(late))
        self.world.soon(self._work, 3)

    def give_up(self) -> None:
        """The lease is another's: close every socket."""
        self.status = "over"
        for connection in self.connections.values():
            if connection.owner_open:
                connection.close_by_owner()

    def forget(self) -> None:
        """An exception: the next turn is rolled back with what it heard, or its words are never sent."""
        if self.world.chance.random() < 0.5:
            self.loses_next_frames = True
        else:
            self.loses_next_turn = True

    def _speak_once_from_an_old_cache(self) -> None:
        """No transaction, no fence: a repair was decided, the process was stopped, and now it leaves."""
        answers = [event for event in self._inbox if isinstance(event, Heard)]
        decision = self._decide(tuple(answers[:2]))
        if not decision.records:
            self.world.tell(f"  old owner {self.epoch} speaks from its cache")
            self._speak(decision)

    # -- turns ------------------------------------------------------------------------------

    def _work(self) -> None:
        self._busy = False
        if self.status != "up":
            return
        if self.epoch != self.world.database.epoch:
            self.give_up()
            return
        commits = any(isinstance(event, _Commit) for event in self._inbox)
        turns = any(not isinstance(event, _Commit) for event in self._inbox)
        if commits and not (turns and self.world.chance.random() < 0.5):
            # As a lane does: what takes no turn is written before the turns that wait, but for what came
            # while the batch before was written, when one turn comes between.
            self._commit_batch()
            return
        events: list[GroupEvent] = []
        most = self.world.chance.choice((1, 1, 3, 8))
        waiting: deque[GroupEvent | _Commit] = deque()
        for event in self._inbox:
            if isinstance(event, _Commit) or len(events) == most:
                waiting.append(event)
            else:
                events.append(event)
        self._inbox = waiting
        self._take_turn(tuple(events))

    def _take_turn(self, events: tuple[GroupEvent, ...]) -> None:
        decision = self._decide(events)
        if self.loses_next_turn and events:
            self.loses_next_turn = False
            self.world.tell("  a turn is rolled back, its events and the cache are lost")
            self._done(events)
            self._drop_cache()
            return
        if decision.records and not self.world.save(self.epoch, self.state.rows, decision):
            self.give_up()
            return
        self._check(decision, events)
        self.state = decision.state
        if self.loses_next_frames and (decision.records or decision.commands):
            self.loses_next_frames = False
            self.world.tell("  the owner's cache is dropped, its words are lost")
            self._done(events)
            self._drop_cache()
            return
        self._busy = self._in_turn = True
        self.world.soon(lambda: self._spoken(decision, events), 2)

    def _drop_cache(self) -> None:
        sessions = self.state.memory.sessions
        self._load(
            {
                member_id: session.connection
                for member_id, session in sessions.items()
                if session.connection is not None and self.connections[session.connection].owner_open
            }
        )
        self._wake()

    def _spoken(self, decision: GroupDecision, events: tuple[GroupEvent, ...]) -> None:
        self._busy = False
        if self.status == "over":
            return
        self._speak(decision)
        self._done(events)
        self._turn_over()
        self._arm(decision.look_again_at)
        self._wake()

    def _speak(self, decision: GroupDecision) -> None:
        for saying in (*decision.replies, *decision.commands):
            self._say(saying)

    def _say(self, saying: Saying) -> None:
        connection = self.connections[saying.connection]
        match saying:
            case Say():
                if connection.owner_open:
                    connection.to_member(saying.message)
            case HangUp():
                if connection.owner_open:
                    connection.close_by_owner()

    def _decide(self, events: tuple[GroupEvent, ...]) -> GroupDecision:
        world = self.world
        return decide(self.state, events, self.clock.now(), world.settings, world.surroundings)

    def _load(self, bound: dict[str, ConnectionId]) -> None:
        world = self.world
        decision = load(world.database.rows, self.clock.now(), world.settings, world.surroundings, bound)
        if decision.records:
            assert world.save(self.epoch, world.database.rows, decision)
        self.state = decision.state
        self._find_finished()
        self._arm(decision.look_again_at)

    def _arm(self, look_again_at: Instant | None) -> None:
        if look_again_at is None:
            return
        at = max(self.clock.world_time(look_again_at), self.world.now) + self.world.chance.uniform(0.1, 20)
        if self._tick_at is None or at < self._tick_at:
            self._tick_at = at
            self.world.later(at - self.world.now, lambda: self._tick(at))

    def _tick(self, at: float) -> None:
        if self._tick_at != at:
            return
        self._tick_at = None
        if self.status == "up" and not self._busy:
            self._take_turn(())
        elif self.status != "over":
            self._tick_at = at + 10
            self.world.later(10, lambda: self._tick(at + 10))

    # -- offsets ----------------------------------------------------------------------------

    def _commit_batch(self) -> None:
        written: dict[Partition, int] = {}
        answers: list[tuple[Connection, CommitOffsetsResponse]] = []
        commits = [event for event in self._inbox if isinstance(event, _Commit)]
        self._inbox = deque(event for event in self._inbox if not isinstance(event, _Commit))
        acknowledged: dict[Partition, tuple[str, int, int]] = {}
        for commit in commits:
            request = commit.request
            judgement = offsets.judge(
                self.state,
                ConnectionId(commit.connection.id),
                request.consumer_id,
                each_position(request.offset_info),
            )
            for partition in judgement.accepted:
                tenure = self.state.rows.owned[commit.request.consumer_id][partition]
                self.world.forbid(
                    commit.truth[partition] < tenure.since_generation,
                    f"an offset of an earlier tenure of {partition} was committed",
                )
            written.update(judgement.accepted)
            for partition, offset in judgement.accepted.items():
                acknowledged[partition] = (commit.connection.id, commit.arrival, offset)
            answers.append((commit.connection, frames.commit_answer(request.correlation_id, judgement)))
        if written and not self.world.commit_offsets(self.epoch, written):
            self.give_up()
            return
        self.state = offsets.committed(self.state, written)
        self._acknowledged.update(acknowledged)
        for connection, response in answers:
            if connection.owner_open:
                connection.to_member(response)
            self._orders.done(ConnectionId(connection.id))
        self._wake()

    def _committer(self) -> None:
        if self.status == "over":
            return
        dirty = dict(self.state.memory.dirty)
        if self.status == "up" and not self._busy and dirty and self.world.commit_offsets(self.epoch, dirty):
            self.state = offsets.flushed(self.state, dirty)
        self.world.later(700, self._committer)

    # -- work items -------------------------------------------------------------------------

    def _sweep(self) -> None:
        if self.status == "over":
            return
        if self.status == "up":
            self._find_finished()
        self.world.later(self.world.chance.choice((10, 30, 300)), self._sweep)

    def _find_finished(self) -> None:
        found = self.world.finished_item()
        known = self.state.memory.finished
        if found is None or (known is not None and known.item_id == found[0]):
            return
        if not any(isinstance(event, ItemFinished) for event in self._inbox):
            self._receive(ItemFinished(*found))

    # -- checks -----------------------------------------------------------------------------

    def _check(self, decision: GroupDecision, events: tuple[GroupEvent, ...]) -> None:
        for event in events:
            if isinstance(event, Heard) and isinstance(event.message, PingResponse | StopFetcherResponse):
                self._check_noted(event, decision)
        for record in decision.records:
            if isinstance(record, records.MemberRemoved) and record.why == sessions.SESSION_OVER:
                token_hash = self.state.rows.members[record.member_id].token_hash
                self.cluster.check_expiry(record.member_id, token_hash)
            if isinstance(record, records.PartitionsRunning):
                self.cluster.check_running(record, decision.state.rows)

    def _check_noted(self, event: Heard, decision: GroupDecision) -> None:
        message = event.message
        assert isinstance(message, PingResponse | StopFetcherResponse)
        _, truth, arrival = self.cluster.truth.pop(id(message), (message, {}, 0))
        owned = decision.state.rows.owned.get(message.consumer_id, {})
        for partition, position in each_position(message.offset_info):
            noted = decision.state.memory.dirty.get(partition)
            tenure = owned.get(partition)
            if tenure is None or noted != position.offset or partition not in truth:
                continue
            if offsets.refusal(tenure, position, decision.state.rows.generation) == 0:
                connection, acknowledged_at, offset = self._acknowledged.get(partition, ("", 0, 0))
                self.world.forbid(
                    connection == event.connection and arrival < acknowledged_at and position.offset < offset,
                    f"a position of {partition} was noted that is older than what was acknowledged",
                )
                self.world.forbid(
                    truth[partition] < tenure.since_generation,
                    f"an offset of an earlier tenure of {partition} was noted",
                )
