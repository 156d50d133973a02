"""This room is a simulated Kafka client in a group: its requests, and what it does about each answer.

It reacts as Kafka's clients do: UNKNOWN_MEMBER_ID begins anew without an id, ILLEGAL_GENERATION and
REBALANCE_IN_PROGRESS join again, errors of the coordinator look for it again, FENCED_INSTANCE_ID ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from coordinator.core.events import (
    ClassicRequest,
    ConnectionId,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Leaver,
    Sync,
    SyncAnswer,
    Waiter,
)
from groups.core.consumer_protocol import assigned_partitions, assignment, subscription
from muster.kernel.error_codes import ErrorCode
from tests.simulation.classic.reader import PARTITIONS, Reader
from tests.simulation.classic.seat import Seat
from tests.simulation.native.world import SESSION_MS

if TYPE_CHECKING:
    from tests.simulation.classic.cluster import Cluster

HEARTBEAT_MS = SESSION_MS / 3
REBALANCE_MS = 12_000
REQUEST_TIMEOUT_MS = 8_000
JOIN_TIMEOUT_MS = REBALANCE_MS + 5_000
BACKOFF_MS = 100
JOIN_AGAIN = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
LOOK_AGAIN = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
RESTART_MS = 1_000
MORE = "x" * 100
"""Of a topic's name: in worlds that bound what is stated it is too much for some."""
"""A client that was told that its group speaks otherwise is started again by whoever runs it."""


class Client:
    """One consumer. `gone`: it left, was fenced or died."""

    def __init__(self, cluster: Cluster, name: str, instance: str | None) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.name, self.instance = name, instance
        self.member_id, self.generation = "", -1
        self.strategies = ["range"]
        self.version = 0
        self.state = "finding"
        self.gone = self.paused = False
        self.mute = False
        """Its application hangs: it beats, and neither joins nor asks for its share, until it is removed."""
        self.knocks = False
        """It asks for an id, and never joins with it."""
        self.proved_at = self.world.now
        self._seat: Seat | None = None
        self._asked: Waiter | None = None
        self._request = 0
        self.timeouts = 0
        self.reader = Reader(self)
        self.world.soon(self.find)

    @property
    def shares(self) -> frozenset[int]:
        """What it reads."""
        return self.reader.shares

    @property
    def seat(self) -> Seat | None:
        """Where it speaks, if its connection is whole as far as it knows."""
        return self._seat

    # -- the coordinator --------------------------------------------------------------------

    def find(self) -> None:
        """FindCoordinator: whoever believes to serve the group, now and then somebody who does no more.

        A member of a Stable generation goes on with heartbeats there; whoever waited joins again.
        """
        if self.gone:
            return
        if self.state != "stable":
            self.state = "finding"
        self._drop_seat()
        nodes = [node for node in self.cluster.nodes if node.status == "up" and node.epoch]
        if not nodes:
            self.world.later(BACKOFF_MS, self.find)
            return
        node = max(nodes, key=lambda one: one.epoch)
        if self.world.chance.random() < 0.05:
            # In the calm an ended process refuses who comes; until then its whole machine may be gone.
            there = [one for one in self.cluster.nodes if not (self.world.quiet and one.loop.over)]
            node = self.world.chance.choice(there)
        self._seat = Seat(self.cluster, node, self.name, self.hear)
        if self.state != "stable":
            self.join()

    def _drop_seat(self) -> None:
        seat, self._seat = self._seat, None
        self._asked = None
        if seat is not None:
            seat.leave_node()

    def break_connection(self) -> None:
        """Requests on their way may be decided, their answers are lost."""
        if self._seat is not None:
            self._seat.broken = True
            self.world.later(self.world.chance.uniform(5, 300), self._notices(self._seat))

    def _notices(self, seat: Seat) -> Callable[[], None]:
        return lambda: self.find() if self._seat is seat else None

    # -- requests ---------------------------------------------------------------------------

    def _ask(self, make: Callable[[ConnectionId, Waiter], ClassicRequest], timeout_ms: float) -> None:
        seat = self._seat
        assert seat is not None
        waiter = self._asked = Waiter(self.cluster.next_number())
        event = make(seat.id, waiter)
        seat.send(seat.ask, event)

        def give_up() -> None:
            if self._asked == waiter and not self.gone:
                self.timeouts += 1
                self.world.tell(f"    {self.name}: no answer to {type(event).__name__}")
                self.find()

        self.world.later(timeout_ms, give_up)

    def join(self) -> None:
        """JoinGroup with what it knows of itself; it reads no further before it has its next share."""
        if self.gone or self.mute:
            return
        if self._seat is None:
            # It does once it has found somebody.
            self.state = "finding"
            return
        self.reader.stop()
        self.state = "joining"
        self._ask(self._joining, JOIN_TIMEOUT_MS)

    def _joining(self, connection: ConnectionId, waiter: Waiter) -> Join:
        # Who changes its mind for the first time, or the third, states more of itself.
        said = subscription(["orders", f"news{self.version}" + MORE * (self.version % 2)])
        return Join(
            connection=connection,
            waiter=waiter,
            fresh_member_id=f"{self.instance or self.name}-{waiter}",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            client_id=self.name,
            protocol_type="consumer",
            protocols=tuple((name, said) for name in self.strategies),
            must_know_id=True,
            answers_skip=True,
        )

    def sync(self, assignments: Mapping[str, bytes]) -> None:
        """SyncGroup of the generation that it joined."""
        if self.mute:
            self.state = "stable"
            return
        self.state = "syncing"

        def make(connection: ConnectionId, waiter: Waiter) -> Sync:
            return Sync(
                connection=connection,
                waiter=waiter,
                member_id=self.member_id,
                generation=self.generation,
                group_instance_id=self.instance,
                protocol_type="consumer",
                assignments=assignments,
            )

        self._ask(make, REQUEST_TIMEOUT_MS + REBALANCE_MS)

    def leave(self) -> None:
        """LeaveGroup, and it is gone, whatever is answered."""
        if self._seat is not None and self.member_id:
            leaver = (Leaver(self.member_id, self.instance, "bye"),)
            self._ask(lambda c, w: Leave(connection=c, waiter=w, members=leaver), REQUEST_TIMEOUT_MS)
        self.die()

    def die(self) -> None:
        """Nothing more comes from it."""
        self.gone = True
        self.reader.stop()

    # -- answers ----------------------------------------------------------------------------

    def hear(self, seat: Seat, message: Any) -> None:
        if self.gone or seat is not self._seat or message.waiter != self._asked:
            return
        if self.paused:
            self.world.later(50, lambda: self.hear(seat, message))
            return
        self._asked = None
        match message:
            case JoinAnswer(error=ErrorCode.NONE):
                self._joined(message)
            case SyncAnswer(error=ErrorCode.NONE):
                self._synced(message)
            case LeaveAnswer():
                pass
            case _:
                self._refused(message)

    def _joined(self, answer: JoinAnswer) -> None:
        self.cluster.checks.joined(self, answer)
        self.reader.stop()
        self.member_id, self.generation = answer.member_id, answer.generation
        self._beat_later()
        if answer.members and not answer.skip_assignment:
            names = [one.member_id for one in answer.members]
            shares = {
                name: assignment({"orders": range(place, PARTITIONS, len(names))})
                for place, name in enumerate(names)
            }
            self.world.later(
                self.world.chance.choice((1, 30, 900)), lambda: self._lead(answer.generation, shares)
            )
        else:
            self.sync({})

    def _lead(self, generation: int, shares: Mapping[str, bytes]) -> None:
        if (
            not self.gone
            and self.state == "joining"
            and self.generation == generation
            and self._asked is None
        ):
            self.sync(shares)

    def _synced(self, answer: SyncAnswer) -> None:
        self.state = "stable"
        self.cluster.checks.synced(self, answer)
        topics = assigned_partitions(answer.assignment) if answer.assignment else {}
        self.reader.start(frozenset((topics or {}).get("orders", ())))

    def _refused(self, answer: Any) -> None:
        error = answer.error
        self.world.tell(f"    {self.name} hears {error.name}")
        self.reader.stop()
        if error in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
            self.die()
        elif error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            self.member_id, self.generation = "", -1
            self.world.later(RESTART_MS, self._if_idle(self.find))
        elif error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            if self.knocks:
                self.die()
            self.join()
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id, self.generation = "", -1
            self.join()
        elif error in JOIN_AGAIN:
            self.world.later(BACKOFF_MS, self._if_idle(self.join))
        elif error in LOOK_AGAIN or error is ErrorCode.UNKNOWN_SERVER_ERROR:
            self.world.later(BACKOFF_MS, self._if_idle(self.find))
        else:
            self.world.forbid(True, f"{self.name} hears {error.name}")

    def _if_idle(self, action: Callable[[], None]) -> Callable[[], None]:
        return lambda: action() if self._asked is None and not self.gone else None

    # -- heartbeats -------------------------------------------------------------------------

    def _beat_later(self) -> None:
        """One clock for each generation; it stops with it."""
        self._request += 1
        mine = self._request
        self.world.later(HEARTBEAT_MS, lambda: self._beat(mine))

    def _beat(self, mine: int) -> None:
        if self.gone or mine != self._request:
            return
        self.world.later(HEARTBEAT_MS, lambda: self._beat(mine))
        seat = self._seat
        if self.paused or seat is None or self.state == "finding":
            return
        if seat.node.loop.over and not seat.broken:
            # Nobody is there.
            self.break_connection()
        if seat.broken:
            return
        member_id, generation, sent_at = self.member_id, self.generation, self.world.now

        def told(error: ErrorCode) -> None:
            if mine == self._request and (member_id, generation) == (self.member_id, self.generation):
                self._beaten(seat, error, sent_at)

        seat.send(seat.beat, member_id, self.instance, generation, told)

    def _beaten(self, seat: Seat, error: ErrorCode, sent_at: float) -> None:
        if self.gone or seat.broken:
            return
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.cluster.checks.lives(self, sent_at)
        if error is ErrorCode.NONE:
            self.reader.commit_now_and_then()
        if error is ErrorCode.NONE or self.state != "stable":
            return
        if error in LOOK_AGAIN:
            self.find()
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            self.die()
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.reader.commit_late()
            self.member_id, self.generation, self.mute = "", -1, False
            self.join()
        elif error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
            self.reader.commit_late()
            self.join()

    # -- what people do to it ---------------------------------------------------------------

    def changes_its_mind(self) -> None:
        """It subscribes to something else, and joins to say so."""
        self.version += 1
        if self.state == "stable" and self._asked is None:
            self.join()

    def hangs(self) -> None:
        """It reads nothing any more, and says nothing but that it lives."""
        self.mute = True
        self.reader.stop()

    def goes_on(self) -> None:
        """It asks for its share anew; in the calm not before the group has done without it.

        But for a static member, which keeps its place for as long as it beats (conformance 91).
        """
        is_missed = self.world.quiet and self.instance is None and self.cluster.is_rebalancing()
        if self.mute and is_missed:
            self.world.later(HEARTBEAT_MS, self.goes_on)
        elif self.mute:
            self.mute = False
            if self._asked is None:
                self.join()

    def rolls(self) -> None:
        """Its strategy is another, step by step."""
        self.strategies = {"range": ["sticky", "range"], "sticky": ["sticky"]}[self.strategies[0]]
        if self.state == "stable" and self._asked is None:
            self.join()
