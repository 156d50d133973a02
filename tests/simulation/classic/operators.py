"""This room is everybody who is no Kafka member: operators, tools, outsiders who commit, native strangers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from coordinator.core.events import ConnectionId, Leave, Leaver, Waiter
from coordinator.core.requests import names
from groups.core.requests import (
    KIND,
    Asked,
    DeleteGroup,
    DeleteOffsets,
    Findings,
    Found,
    LiftQuarantine,
    Rebalance,
    RemoveMember,
    ResetOffsets,
    Scope,
    SetStrategy,
    Wish,
)
from groups.core.state import GroupRows
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import LeaveRequest, RegisterConsumerRequest, RegisterConsumerResponse, TopicCount
from runtime.work_table import WorkRow
from tests.simulation.classic.reader import NEVER_READ, OFFSETS, PARTITIONS
from tests.simulation.classic.seat import Seat
from tests.simulation.native.rows import GROUP, LANE
from tests.simulation.native.world import SESSION_MS

if TYPE_CHECKING:
    from tests.simulation.classic.cluster import Cluster
    from tests.simulation.native.node import Node

QUARANTINES_MS = (0, 0, 2_000, 7_000)


class Operators:
    """What they ask goes into rows, as doors store it; some wake-ups are lost."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world, self.chance = cluster, cluster.world, cluster.world.chance
        self._link = self.world.rows.connect("operators", "door")
        self.asked: dict[str, Asked] = {}

    # -- requests ---------------------------------------------------------------------------

    def ask_something(self) -> str:
        """One request, of any kind, about the group as it is now or was a moment ago."""
        rows = self.world.rows.rows
        wish, findings = self._wish(rows)
        expected = (rows.generation, rows.version) if self.chance.random() < 0.3 else None
        self.ask(wish, findings, expected=expected, dry_run=self.chance.random() < 0.2)
        return f"an operator asks: {type(wish).__name__}"

    def ask(
        self,
        wish: Any,
        findings: Findings | None = None,
        *,
        expected: tuple[int, int] | None = None,
        dry_run: bool = False,
    ) -> str:
        """Store a request; returns its id."""
        name = f"request-{self.cluster.next_number()}"
        asked = self.asked[name] = Asked(wish, expected, dry_run)
        row = WorkRow(
            id=name,
            kind=KIND,
            lane=LANE,
            key=GROUP,
            based_on=None,
            payload=msgspec.to_builtins(asked),
            state="done",
            result=None if findings is None else msgspec.to_builtins(findings),
            principal="olga",
            reason="it is stuck",
        )
        self._link.transaction(lambda connection: connection.work_table.insert(row))
        if self.chance.random() < 0.7:
            self.world.soon(lambda: self.world.woken("work", f"{KIND} {GROUP}"))
        return name

    def _wish(self, rows: GroupRows) -> tuple[Wish, Findings | None]:
        kind = self.chance.choice("mmmmqrrdooossst")
        members = [*rows.classic.members, *rows.members] if rows.classic else [*rows.members]
        if not members and kind in "mr":
            # Only a group without members is given other offsets, and it is seldom without.
            kind = "s"
        if kind == "m":
            member = self.chance.choice([*members, "nobody"])
            return RemoveMember(member, self.chance.choice(QUARANTINES_MS)), None
        if kind == "q":
            return LiftQuarantine(self.chance.choice([*rows.quarantined, "nobody"])), None
        if kind == "r":
            return Rebalance(), None
        if kind == "d":
            return DeleteGroup(), None
        if kind == "o":
            return DeleteOffsets((Scope(self.chance.choice(("orders", NEVER_READ)), ()),)), None
        if kind == "s":
            return self._reset()
        return SetStrategy(assignor="range"), None

    def _reset(self) -> tuple[Wish, Findings]:
        to = self.chance.choice(("earliest", "offset", "shift"))
        numbers = self.chance.sample(range(PARTITIONS), 3)
        found = []
        for number in numbers:
            partition = self.cluster.partition("orders", number)
            found.append(Found(partition.topic, partition.topic_id, number, 0, OFFSETS))
        return ResetOffsets(to, value=self.chance.randrange(OFFSETS)), Findings(tuple(found))

    def unanswered(self) -> list[str]:
        """Requests that wait for their owner."""
        work = self.world.rows.tables["work"]
        return [name for name in self.asked if work[name].state != "adopted"]

    def answered_wrongly(self) -> str:
        """A row says what its turn decided, or that no turn could be taken; never both."""
        work, decided = self.world.rows.tables["work"], self.cluster.checks.requests
        for name in self.asked:
            row = work[name]
            if name in decided and row.error:
                return f"{name} was decided, and is said not to be"
            if name not in decided and not row.error:
                return f"nobody decided {name}"
        return ""

    # -- Kafka's tools ----------------------------------------------------------------------

    def _node(self) -> Node | None:
        serving = [node for node in self.cluster.nodes if node.status == "up" and node.epoch]
        return max(serving, key=lambda node: node.epoch) if serving else None

    def use_a_tool(self) -> str:
        """DeleteGroups, OffsetDelete, a commit from outside, or several members taken out at once."""
        node = self._node()
        if node is None:
            return ""
        tool = self.chance.choice((self._delete_group, self._delete_offsets, self._commit, self._take_out))
        return tool(node)

    def _delete_group(self, node: Node) -> str:
        before, checks = self.cluster.checks.deletions, self.cluster.checks

        async def ask() -> None:
            error = await node.service.delete_group(GROUP)
            self.world.forbid(
                error is ErrorCode.NONE and checks.deletions == before,
                "a tool hears of a deletion that was none",
            )

        node.loop.perform(node.loop.create_task, ask())
        return "a tool deletes the group"

    def _delete_offsets(self, node: Node) -> str:
        partitions = [self.cluster.partition("orders", 0), self.cluster.partition(NEVER_READ, 0)]

        async def ask() -> None:
            await node.service.delete_offsets(GROUP, partitions)

        node.loop.perform(node.loop.create_task, ask())
        return "a tool deletes offsets"

    def commit_from_outside(self) -> str:
        """Somebody who is no member commits, as administrators do."""
        node = self._node()
        return "" if node is None else self._commit(node)

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
