"""This room is everybody who is no member: operators who ask, tools that delete, outsiders who commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from coordinator.classic_commits import ClassicCommit, Committed, Stated
from coordinator.core.events import ConnectionId, Join, Waiter
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
from muster.kernel.ids import TopicName
from muster.messages.partitions import Partition
from runtime.work_table import WorkRow
from tests.simulation.native.rows import GROUP, LANE
from tests.simulation.native.world import SESSION_MS

if TYPE_CHECKING:
    from tests.simulation.native.cluster import Cluster
    from tests.simulation.native.node import Node

QUARANTINES_MS = (0, 0, 2_000, 7_000)
RESET_AT_ONCE = 3
STAYS_MS = 3_000


class Operators:
    """What they ask goes into rows, as doors store it; some wake-ups are lost."""

    offsets_max = 200
    """No reset goes beyond; consumers come about as far within a seed."""

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
            return DeleteOffsets((Scope(self.chance.choice(self._topics()), ()),)), None
        if kind == "s":
            return self.reset()
        return self._strategy(), None

    def _topics(self) -> tuple[str, ...]:
        """Those of which offsets may be deleted, if there are any."""
        rows = self.world.rows.rows
        read = {wish.topic for member in rows.members.values() for wish in member.topic_count}
        unread = sorted({one.topic for one in rows.offsets} - read)
        return tuple(unread) or ("orders", "clicks")

    def _strategy(self) -> SetStrategy:
        return SetStrategy(
            assignor=self.chance.choice(("range", "sticky", None)),
            rebalance_mode=self.chance.choice(("eager", "incremental", None)),
        )

    def _partitions(self) -> list[Partition]:
        """Some that may be reset."""
        known = sorted(
            self.cluster.partition(name, number)
            for name, layout in self.world.layouts.items()
            for number in range(layout.partition_count)
        )
        return self.chance.sample(known, min(RESET_AT_ONCE, len(known)))

    def reset(self) -> tuple[Wish, Findings]:
        """Some partitions, to wherever."""
        to = self.chance.choice(("earliest", "offset", "shift"))
        found = [
            Found(one.topic, one.topic_id, one.number, 0, self.offsets_max) for one in self._partitions()
        ]
        return ResetOffsets(to, value=self.chance.randrange(self.offsets_max)), Findings(tuple(found))

    def reset_offsets(self) -> str:
        """One request of this kind."""
        self.ask(*self.reset())
        return "an operator asks: ResetOffsets"

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
        """Any of `_tools`, by whoever serves."""
        node = self._node()
        return "" if node is None else self.chance.choice(self._tools())(node)

    def _tools(self) -> tuple[Callable[[Node], str], ...]:
        return (self._delete_group, self._delete_offsets, self._commit)

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

    def _deletable(self) -> list[Partition]:
        topic = self.chance.choice(self._topics())
        partitions = range(self.world.layouts[TopicName(topic)].partition_count)
        return [self.cluster.partition(topic, number) for number in partitions]

    def _delete_offsets(self, node: Node) -> str:
        partitions = self._deletable()

        async def ask() -> None:
            await node.service.delete_offsets(GROUP, partitions)

        node.loop.perform(node.loop.create_task, ask())
        return "a tool deletes offsets"

    def commit_from_outside(self) -> str:
        """Somebody who is no member commits, as administrators do."""
        node = self._node()
        return "" if node is None else self._commit(node)

    def _commit(self, node: Node) -> str:
        self.commit_as_nobody(node, self._partitions())
        return "somebody commits from outside"

    def commit_as_nobody(self, node: Node, partitions: list[Partition]) -> None:
        """As kafka-consumer-groups --reset-offsets does, to any offset."""
        offsets = {one: Committed(self.chance.randrange(self.offsets_max)) for one in partitions}
        node.loop.perform(Outsider(node, self.cluster.next_number()).commit, offsets)

    def knock(self) -> str:
        """A Kafka consumer asks for an id, and never joins; a group without members is a classic one then."""
        node = self._node()
        if node is None:
            return ""
        node.loop.perform(Outsider(node, self.cluster.next_number()).knock)
        return "a Kafka consumer knocks"


class Outsider:
    """coordinator.callers.Caller of somebody who speaks Kafka's protocol once, and goes."""

    closing = False

    def __init__(self, node: Node, number: int) -> None:
        self.node, self.number, self.id = node, number, ConnectionId(f"outside/{number}")
        node.world.later(STAYS_MS, lambda: node.loop.perform(self._go))

    def commit(self, positions: dict[Partition, Committed]) -> None:
        """Its OffsetCommit of generation -1 reaches the node, as its door lets it in."""
        service = self.node.service
        if service.accepting:
            service.premises.callers.add(self, service.shard)
            service.commit(
                ClassicCommit(
                    key=GROUP,
                    connection=self.id,
                    member_id="",
                    group_instance_id=None,
                    generation=-1,
                    stated=Stated.of(positions),
                    answer=lambda judgement: None,
                )
            )

    def knock(self) -> None:
        """Its JoinGroup reaches the node."""
        service = self.node.service
        service.premises.callers.add(self, service.shard)
        asked = Join(
            connection=self.id,
            waiter=Waiter(self.number),
            fresh_member_id=f"kafka-{self.number}",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type="consumer",
            protocols=(("range", b""),),
            must_know_id=True,
        )
        service.request(self, GROUP, asked)

    def _go(self) -> None:
        self.node.service.premises.callers.remove(self, self.node.service.shard)

    def say(self, message: Any) -> None:
        """It does not come again."""

    def hang_up(self, error: ErrorCode, text: str) -> None:
        self.closing = True
