"""This room is a simulated consumer: the SDK's real session core, and a shell that obeys its directives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.client.core.directives import (
    CommitAnswered,
    CommitLost,
    Directive,
    Disconnect,
    EndFetchers,
    Left,
    Rediscover,
    Refused,
    Send,
    StandBy,
    StartFetchers,
)
from muster.client.core.session import MemberSession, Stage
from muster.client.core.wishes import Wishes
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import (
    CommitOffsetsRequest,
    StartFetcherRequest,
    StopFetcherRequest,
    StopFetcherResponse,
    ToMember,
    TopicCount,
)
from muster.messages.partitions import Partition, Position
from tests.simulation.native.network import Connection
from tests.simulation.native.world import SESSION_MS
from tests.simulation.timeline import Clock

if TYPE_CHECKING:
    from tests.simulation.native.cluster import Cluster


class Process:
    """One consumer process. `status`: up, paused, over. `fetchers` are what really runs."""

    def __init__(
        self, cluster: Cluster, member_id: str, token: str, topic_count: tuple[TopicCount, ...]
    ) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.clock = Clock(self.world)
        self.member_id = member_id
        self.status = "up"
        self.mute = False
        self.finishes_a_step = False
        self.fetchers: dict[Partition, int] = {}
        self.stands_by: frozenset[Partition] = frozenset()
        self.consumed = 0
        self.ended = 0
        self.session = MemberSession(
            Wishes(
                "readers",
                member_id,
                token.ljust(43, "."),
                topic_count,
                session_timeout_ms=SESSION_MS,
                stands_by=self.world.redundant,
            )
        )
        self._connection: Connection | None = None
        self._unread: list[ToMember] = []
        self._held: list[ToMember] = []
        self._lost = False
        self._commits: dict[int, dict[Partition, int]] = {}
        self._in_hand: dict[Partition, Position] = {}
        self._started_at: dict[Partition, float] = {}
        self._out_of_range: set[Partition] = set()
        self._truth: dict[Partition, int] = {}
        self._connecting = False
        self._obey([Rediscover(self.clock.now())])
        self._live()

    @property
    def gone(self) -> bool:
        return self.status == "over"

    def may_be_fetching(self, partition: Partition) -> bool:
        """Now, or as soon as it is not paused any more, and by its own clock allowed to."""
        deadline = self.session.deadline
        return (
            partition in self.fetchers
            and not self.gone
            and deadline is not None
            and self.world.now < self.clock.world_time(deadline)
        )

    # -- faults -----------------------------------------------------------------------------

    def crash(self) -> None:
        self.status = "over"
        self.fetchers.clear()
        if self._connection is not None:
            self._connection.break_link(100)

    def pause(self) -> None:
        self.status = "paused"

    def wake(self) -> None:
        """It may finish the one step it had in hand; everything after asks the clock first."""
        if self.status != "paused":
            return
        self.status = "up"
        if self.world.chance.random() < 0.5:
            self._consume()
        self._read()
        if self._lost:
            self._lose()

    def unmute(self) -> None:
        self.mute = False
        self._unread = [*self._held, *self._unread]
        self._held = []
        if self.status == "up":
            self._read()

    def break_connection(self) -> None:
        if self._connection is not None:
            self._connection.break_link(3_000)

    def lose_voice(self, for_ms: float) -> None:
        """It hears, and is not heard."""
        if self._connection is not None:
            self._connection.lose_what_the_member_says(for_ms)

    def leave(self) -> None:
        self._obey(self.session.leave(self.clock.now()))

    def subscribe(self, topic_count: tuple[TopicCount, ...]) -> None:
        self._obey(self.session.subscribe(topic_count, self.clock.now()))

    def out_of_range(self, partition: Partition) -> None:
        self._out_of_range.add(partition)
        self._obey(self.session.out_of_range(partition, self.clock.now()))

    def commit_in_hand(self) -> None:
        """The application commits what it has in hand, however old it is."""
        if self.status == "up" and self._in_hand:
            self._commit(dict(self._in_hand))

    def commit(self) -> None:
        """The application commits where it is."""
        known = {one: at for one, at in self.session.fetching.items() if at.offset > 0}
        if self.status == "up" and known:
            self._commit(known)

    # -- the connection ---------------------------------------------------------------------

    def frame_arrived(self, connection: Connection, message: ToMember) -> None:
        if connection is self._connection and not self.gone:
            self._unread.append(message)
            if self.status == "up":
                self._read()

    def connection_lost(self, connection: Connection) -> None:
        if connection is self._connection and not self.gone:
            self._lost = True
            if self.status == "up":
                self._lose()

    def _lose(self) -> None:
        self._lost, self._connection = False, None
        self._unread, self._held = [], []
        self._obey(self.session.disconnected(self.clock.now()))

    def _read(self) -> None:
        while self._unread and self.status == "up":
            message = self._unread.pop(0)
            commands = StopFetcherRequest | StartFetcherRequest
            if self.mute and isinstance(message, commands):
                self._held.append(message)
                continue
            self._hear(message)

    def _hear(self, message: ToMember) -> None:
        if isinstance(message, StartFetcherRequest):
            self._starting_generation = message.generation
        self._obey(self.session.hear(message, self.clock.now()))

    def _connect(self) -> None:
        self._connecting = False
        if self.gone or self._connection is not None or self.session.stage is not Stage.APART:
            return
        if self.status == "paused":
            self._try_later(100)
            return
        connection = self.cluster.open_connection(self)
        if connection is None:
            self._try_later(self.world.chance.uniform(50, 300))
            return
        self._connection = connection
        self._obey(self.session.connected(self.clock.now()))

    def _try_later(self, delay_ms: float) -> None:
        if not self._connecting:
            self._connecting = True
            self.world.later(delay_ms, self._connect)

    # -- directives -------------------------------------------------------------------------

    def _obey(self, directives: list[Directive]) -> None:
        for directive in directives:
            self._obey_one(directive)
        self.cluster.check_fetchers()

    def _obey_one(self, directive: Directive) -> None:
        match directive:
            case Send():
                self._send(directive)
            case EndFetchers():
                self._end(directive)
            case StartFetchers():
                self._start(directive)
            case StandBy():
                self._stand_by(directive)
            case Disconnect():
                # A node that does not know yet that its lease is another's may still say old things.
                self.world.forbid(
                    "old key" in directive.text and self.cluster.hears_the_present_owner(self._connection),
                    f"{self.member_id}: {directive.text}",
                )
                self.world.tell(f"  {self.member_id} hangs up: {directive.text}")
                if self._connection is not None:
                    self._connection.close_by_member()
                self._connection, self._unread, self._held = None, [], []
            case Rediscover():
                wait = self.clock.world_time(directive.not_before) - self.world.now
                self._try_later(max(wait, 0) + self.world.chance.uniform(1, 30))
            case CommitAnswered():
                self._commit_answered(directive)
            case CommitLost():
                for correlation_id in directive.correlation_ids:
                    self._commits.pop(correlation_id, None)
            case Refused():
                full = directive.error_code is ErrorCode.GROUP_SIZE_EXCEEDED
                self.world.forbid(not full, f"{self.member_id} was refused: {directive.text}")
                self.status = "over"
            case Left():
                self.status = "over"
                self.fetchers.clear()

    def _send(self, directive: Send) -> None:
        message = directive.message
        if self._connection is None:
            return
        truth = dict(self._truth)
        if isinstance(message, CommitOffsetsRequest) and message.correlation_id in self._commits:
            truth = self._commit_truth
        self._connection.to_owner(message, truth)
        if isinstance(message, StopFetcherResponse) and self.finishes_a_step:
            self._commit({one: Position(at.offset + 1, at.generation) for one, at in self._in_hand.items()})

    def _end(self, directive: EndFetchers) -> None:
        for partition in directive.partitions:
            position = self.fetchers.pop(partition, None)
            self.ended += 1
            if position is not None and position > 0:
                self._in_hand[partition] = Position(position, self._truth[partition])
        if directive.answer is not None:
            self._obey(self.session.fetchers_ended(directive.answer, self.clock.now()))

    def _stand_by(self, directive: StandBy) -> None:
        self.stands_by = frozenset(directive.offsets)
        both = sorted(map(str, self.stands_by & self.fetchers.keys()))
        self.world.forbid(bool(both), f"{self.member_id} fetches and stands by for {both}")

    def _start(self, directive: StartFetchers) -> None:
        lapsed = not self.session.may_fetch(self.clock.now())
        for partition, offset in directive.offsets.items():
            self.world.forbid(partition in self.fetchers, f"{self.member_id} starts {partition} twice")
            if not lapsed and self.cluster.hears_the_present_owner(self._connection):
                self.world.forbid(
                    offset < self.world.floor.get(partition, -1) and offset >= 0,
                    f"{partition} starts at {offset}, before the hand-over at "
                    f"{self.world.floor.get(partition)}",
                )
                begins_at = self.cluster.checks.begins_at.get(partition, offset)
                self.world.forbid(
                    offset != begins_at and partition not in self._out_of_range,
                    f"{partition} starts at {offset}, and was set to {begins_at}",
                )
            self.cluster.checks.begins_at.pop(partition, None)
            if offset >= 0:
                self._out_of_range.discard(partition)
            offset = max(offset, self.world.floor.get(partition, 0)) if offset < 0 else offset
            if partition in directive.kept:
                self.world.forbid(
                    self.cluster.last_to_fetch.get(partition) is not self,
                    f"{self.member_id} keeps {partition}, which another fetched meanwhile",
                )
                self.world.forbid(
                    self._started_at[partition] < self.cluster.checks.changed_at.get(partition, 0),
                    f"{self.member_id} keeps {partition}, which somebody changed meanwhile",
                )
                self.cluster.kept += 1
                # What the application was given meanwhile needs not come again.
                offset = max(offset, self._in_hand[partition].offset if partition in self._in_hand else 0)
            self.cluster.last_to_fetch[partition] = self
            self._started_at[partition] = self.world.now
            self.fetchers[partition] = max(offset, 0)
            self._truth[partition] = self._starting_generation
            self.session.advance(partition, max(offset, 0))

    def _commit(self, positions: dict[Partition, Position]) -> None:
        self._commit_truth = {one: self._fetched_under(one, at) for one, at in positions.items()}
        correlation_id, directives = self.session.commit(positions)
        if correlation_id:
            self._commits[correlation_id] = {one: at.offset for one, at in positions.items()}
        self._obey(directives)

    def _fetched_under(self, partition: Partition, position: Position) -> int:
        in_hand = self._in_hand.get(partition)
        return in_hand.generation if in_hand == position else self._truth[partition]

    def _commit_answered(self, answered: CommitAnswered) -> None:
        wanted = self._commits.pop(answered.correlation_id, {})
        if answered.error_code is ErrorCode.NONE:
            for partition, offset in wanted.items():
                if partition not in answered.refused:
                    self.cluster.checks.acknowledged(partition, offset)

    # -- life -------------------------------------------------------------------------------

    def _live(self) -> None:
        """Fetch, consume, look at the clock; again and again."""
        if self.gone:
            return
        if self.status == "up":
            now = self.clock.now()
            if self.session.may_fetch(now):
                self._consume()
            self._obey(self.session.tick(now))
        self.world.later(self.world.chance.uniform(60, 180), self._live)

    def _consume(self) -> None:
        for partition in self.fetchers:
            if self.world.is_at_its_end(partition, self.fetchers[partition]):
                self.cluster.consumed(partition)
                continue
            self.fetchers[partition] += 1
            self.consumed += 1
            self.session.advance(partition, self.fetchers[partition])
            self.cluster.consumed(partition)
