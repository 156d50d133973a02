"""This room is everybody who is no Kafka member: operators, tools, outsiders who commit, native strangers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from coordinator.core.events import ConnectionId, Leave, Leaver, Waiter
from coordinator.core.requests import names
from groups.core.requests import SetStrategy
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import LeaveRequest, RegisterConsumerRequest, RegisterConsumerResponse, TopicCount
from muster.messages.partitions import Partition
from tests.simulation.classic.reader import NEVER_READ, OFFSETS, PARTITIONS
from tests.simulation.classic.seat import Seat
from tests.simulation.native import operators as native
from tests.simulation.native.rows import GROUP
from tests.simulation.native.world import SESSION_MS

if TYPE_CHECKING:
    from tests.simulation.classic.cluster import Cluster
    from tests.simulation.native.node import Node


class Operators(native.Operators):
    """As in the native simulation; and tools that only classic groups know."""

    offsets_max = OFFSETS
    cluster: Cluster  # type: ignore[assignment]

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cast(Any, cluster))

    def _topics(self) -> tuple[str, ...]:
        return ("orders", NEVER_READ)

    def _strategy(self) -> SetStrategy:
        return SetStrategy(assignor="range")

    def _partitions(self) -> list[Partition]:
        return [
            self.cluster.partition("orders", number) for number in self.chance.sample(range(PARTITIONS), 3)
        ]

    def _deletable(self) -> list[Partition]:
        return [self.cluster.partition("orders", 0), self.cluster.partition(NEVER_READ, 0)]

    # -- Kafka's tools ----------------------------------------------------------------------

    def _tools(self) -> tuple[Callable[[Node], str], ...]:
        return (*super()._tools(), self._take_out)

    def _commit(self, node: Node) -> str:
        seat = Seat(self.cluster, node, "outside")
        number = self.chance.randrange(PARTITIONS)
        client = self.chance.choice(self.cluster.clients)
        position = client.reader.position(plain=self.chance.random() < 0.5)
        positions = {self.cluster.partition("orders", number): position}
        seat.send(seat.commit, "", None, -1, positions, lambda error: seat.leave_node())
        return "somebody commits from outside"

    def _take_out(self, node: Node) -> str:
        rows = self.world.rows.rows
        members = list(rows.classic.members.values()) if rows.classic else []
        chosen = self.chance.sample(members, min(len(members), 2))
        leavers = [
            Leaver("", one.group_instance_id, "taken out")
            if one.group_instance_id and self.chance.random() < 0.5
            else Leaver(one.member_id, None, "taken out")
            for one in chosen
        ]
        leavers.insert(self.chance.randint(0, len(leavers)), Leaver("a stranger"))
        seat = Seat(self.cluster, node, "tool", lambda seat, said: seat.leave_node())
        waiter = Waiter(self.cluster.next_number())
        seat.send(seat.ask, Leave(connection=seat.id, waiter=waiter, members=tuple(leavers)))
        return f"a tool takes out {names(one.member_id or str(one.group_instance_id) for one in leavers)}"

    # -- the other world --------------------------------------------------------------------

    def visit(self) -> str:
        """Somebody speaks the native protocol here; in a group without members it is let in."""
        node = self._node()
        if node is None:
            return ""
        visitor = Visitor(self.cluster, node)
        node.loop.perform(visitor.register)
        self.world.later(self.chance.choice((200, 3_000)), visitor.go)
        return f"{visitor.name} speaks the native protocol"


class Visitor:
    """coordinator.callers.Caller of a native member that registers, answers nothing, and leaves."""

    closing = False

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self.node = node
        self.name = f"native-{cluster.next_number()}"
        self.id = ConnectionId(self.name)
        self.registered = False

    def register(self) -> None:
        """Its first frame."""
        self.node.service.premises.callers.add(self, self.node.service.shard)
        request = RegisterConsumerRequest(
            correlation_id=1,
            group_id=GROUP,
            consumer_id=self.name,
            token="t" * 43,
            topic_count=(TopicCount("orders"),),
            session_timeout_ms=SESSION_MS,
        )
        self.node.service.hear(self, GROUP, request)

    def go(self) -> None:
        """It leaves, and closes its connection."""
        if not self.node.loop.over:
            self.node.loop.perform(self._go)

    def _go(self) -> None:
        service = self.node.service
        if self.registered:
            service.hear(self, GROUP, LeaveRequest(consumer_id=self.name, correlation_id=2))
        service.closed(self, GROUP)
        service.premises.callers.remove(self, service.shard)

    def say(self, message: Any) -> None:
        """Nothing but the answer to its request matters to it."""
        if isinstance(message, RegisterConsumerResponse):
            self.registered = message.error_code == ErrorCode.NONE

    def hang_up(self, error: ErrorCode, text: str) -> None:
        self.closing = True
