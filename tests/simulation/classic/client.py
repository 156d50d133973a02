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
from coordinator.subject import refusal
from groups.core.consumer_protocol import assigned_partitions, assignment, subscription
from muster.kernel.error_codes import ErrorCode
from tests.simulation.native.rows import GROUP
from tests.simulation.native.world import SESSION_MS

if TYPE_CHECKING:
    from tests.simulation.classic.cluster import Cluster
    from tests.simulation.native.node import Node

HEARTBEAT_MS = SESSION_MS / 3
REBALANCE_MS = 12_000
REQUEST_TIMEOUT_MS = 8_000
JOIN_TIMEOUT_MS = REBALANCE_MS + 5_000
BACKOFF_MS = 100
PARTITIONS = 6
JOIN_AGAIN = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
LOOK_AGAIN = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Seat:
    """A client's connection to one node, at the node's end."""

    closing = False

    def __init__(self, client: Client, node: Node, number: int) -> None:
        self.client, self.node = client, node
        self.id = ConnectionId(f"{client.name}/{number}")
        self.broken = False
        self.waiting: dict[Waiter, ClassicRequest] = {}
        self._refused: set[Waiter] = set()
        node.service.premises.callers.add(self, node.service.shard)

    def ask(self, event: ClassicRequest) -> None:
        """A request reaches the node."""
        self.waiting[event.waiter] = event
        self.node.service.request(self, GROUP, event)

    def say(self, message: Any) -> None:
        event = self.waiting.pop(message.waiter, None)
        if message.waiter in self._refused:
            return
        self.client.world.forbid(event is None, f"{self.id} is answered what it did not ask, or twice")
        self.client.world.soon(lambda: self._told(message))

    def _told(self, message: Any) -> None:
        if not self.broken:
            self.client.hear(self, message)

    def hang_up(self, error: ErrorCode, text: str) -> None:
        for event in list(self.waiting.values()):
            self.say(refusal(event, error))
            # It may have been asked when the hang-up was on its way: what answers it then finds nobody.
            self._refused.add(event.waiter)

    def beat(
        self, member_id: str, instance: str | None, generation: int, told: Callable[[ErrorCode], None]
    ) -> None:
        """A heartbeat reaches the node."""
        error = self.node.service.heartbeat(GROUP, member_id, instance, generation)
        if error is None:
            asked = self.node.service.heartbeat_later(GROUP, member_id, instance, generation)
            task = self.node.loop.create_task(asked)
            task.add_done_callback(lambda done: None if done.cancelled() else told(done.result()))
        else:
            told(error)

    def leave_node(self) -> None:
        """The node sees the connection end."""
        self.node.service.premises.callers.remove(self, self.node.service.shard)


class Client:
    """One consumer. `gone`: it left, was fenced or died. `shares` is what it reads in its generation."""

    def __init__(self, cluster: Cluster, name: str, instance: str | None) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.name, self.instance = name, instance
        self.member_id, self.generation = "", -1
        self.strategies = ["range"]
        self.version = 0
        self.state = "finding"
        self.shares: frozenset[int] = frozenset()
        self.gone = self.paused = False
        self.proved_at = self.world.now
        self._seat: Seat | None = None
        self._asked: Waiter | None = None
        self._request = 0
        self.timeouts = 0
        self.world.soon(self.find)

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
            node = self.world.chance.choice(self.cluster.nodes)
        self._seat = Seat(self, node, self.cluster.next_number())
        if self.state != "stable":
            self.join()

    def _drop_seat(self) -> None:
        seat, self._seat = self._seat, None
        self._asked = None
        if seat is not None:
            seat.broken = True
            node = seat.node
            self.world.soon(lambda: node.loop.perform(seat.leave_node))

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
        self.world.soon(lambda: None if seat.node.loop.over else seat.node.loop.perform(seat.ask, event))

        def give_up() -> None:
            if self._asked == waiter and not self.gone:
                self.timeouts += 1
                self.world.tell(f"    {self.name}: no answer to {type(event).__name__}")
                self.find()

        self.world.later(timeout_ms, give_up)

    def join(self) -> None:
        """JoinGroup with what it knows of itself."""
        if self.gone or self._seat is None:
            return
        self.state = "joining"
        self._ask(self._joining, JOIN_TIMEOUT_MS)

    def _joining(self, connection: ConnectionId, waiter: Waiter) -> Join:
        said = subscription([f"orders{self.version}"])
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
        self.gone, self.shares = True, frozenset()

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
        self.shares = frozenset()
        self.member_id, self.generation = answer.member_id, answer.generation
        self.proved_at = self.world.now
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
        self.proved_at = self.world.now
        self.state = "stable"
        self.cluster.checks.synced(self, answer)
        topics = assigned_partitions(answer.assignment) if answer.assignment else {}
        self.shares = frozenset((topics or {}).get("orders", ()))

    def _refused(self, answer: Any) -> None:
        error = answer.error
        self.world.tell(f"    {self.name} hears {error.name}")
        self.shares = frozenset()
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.die()
        elif error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
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
        member_id, generation = self.member_id, self.generation

        def told(error: ErrorCode) -> None:
            self.world.soon(lambda: self._beaten(seat, member_id, generation, error, mine))

        def arrive() -> None:
            if not seat.node.loop.over:
                seat.node.loop.perform(seat.beat, member_id, self.instance, generation, told)

        self.world.soon(arrive)

    def _beaten(self, seat: Seat, member_id: str, generation: int, error: ErrorCode, mine: int) -> None:
        if (
            self.gone
            or seat.broken
            or mine != self._request
            or (member_id, generation)
            != (
                self.member_id,
                self.generation,
            )
        ):
            return
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.cluster.checks.lives(self)
        if error is ErrorCode.NONE or self.state != "stable":
            return
        if error in LOOK_AGAIN:
            self.find()
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            self.die()
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.shares = frozenset()
            self.member_id, self.generation = "", -1
            self.join()
        elif error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
            self.shares = frozenset()
            self.join()

    # -- what people do to it ---------------------------------------------------------------

    def changes_its_mind(self) -> None:
        """It subscribes to something else, and joins to say so."""
        self.version += 1
        if self.state == "stable" and self._asked is None:
            self.join()

    def rolls(self) -> None:
        """Its strategy is another, step by step."""
        self.strategies = {"range": ["sticky", "range"], "sticky": ["sticky"]}[self.strategies[0]]
        if self.state == "stable" and self._asked is None:
            self.join()
