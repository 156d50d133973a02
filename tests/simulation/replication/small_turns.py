"""This room takes the turns of a small world: `decide`, asked with the rows and events of one partition."""

from typing import Any
from uuid import UUID

import msgspec

from controller.core.events import Event, Heard, Hello, LinkClosed, Say, TimePassed, TookOver
from controller.core.records import Phase
from controller.core.settings import ControllerSettings
from controller.core.state import ClusterRows, ClusterState, Memory, Session
from controller.core.turn import decide
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import (
    AlterPartition,
    AlterReassignments,
    BrokerHello,
    IsrProposal,
    WantedReplicas,
)
from muster.messages.link.rows import NO_LEADER, BrokerRow, TopicRow
from muster.messages.link.to_broker import AlterPartitionAnswer, HelloAccepted
from tests.simulation.replication.small_states import NOW, TOPIC, Control, Numbers
from tests.simulation.replication.wishes import Broken

MOVE, FRESH = UUID(int=7), UUID(int=8)
NEVER = Instant(1_000_000_000)
NAME = "orders"


class SmallController(Numbers):
    """Turns of the controller of `brokers` brokers, with room for moves and without."""

    def __init__(self, brokers: int, min_insync: int) -> None:
        super().__init__()
        self.brokers = brokers
        self.min_insync = min_insync
        self._busy = ControllerSettings(default_min_insync_replicas=min_insync, max_reassignments=0)
        self._free = ControllerSettings(default_min_insync_replicas=min_insync)

    def turn(self, number: int, event: tuple[Any, ...], is_free: bool) -> tuple[int, tuple[Any, ...]]:
        """The controller after one event, and each frame with the broker that it is said to."""
        before: Control = self.things[number]
        settings = self._free if is_free else self._busy
        state = self._thawed(before, event)
        decision = decide(state, self._events(event), NOW, settings)
        after = self._frozen(decision.state)
        said: list[tuple[int, tuple[Any, ...]]] = []
        welcomed = {int(str(one.link)) for one in decision.replies + decision.commands if _welcomes(one)}
        for one in decision.replies:
            if isinstance(one, Say) and isinstance(one.frame, AlterPartitionAnswer):
                said += [(int(str(one.link)), ("answer", a.base_version, a.row)) for a in one.frame.answers]
        for b in sorted(after.bound):
            if b in welcomed:
                said.append((b, ("snapshot", after.row, after.epochs[b - 1])))
            elif after.row != before.row:
                said.append((b, ("row", after.row)))
        _judge_turn(before, after, event, self.min_insync)
        return self.number(after), tuple(said)

    def _thawed(self, before: Control, event: tuple[Any, ...]) -> ClusterState:
        brokers = [
            BrokerRow(b, before.epochs[b - 1], f"{before.runs[b - 1]}", {}, live=before.live[b - 1])
            for b in range(1, self.brokers + 1)
        ]
        moves = [before.move] if before.move is not None else []
        topic = TopicRow(TOPIC, NAME, 1, before.row.settled_count)
        rows = ClusterRows.of("small", before.version, 1, brokers, [topic], [before.row], moves)
        memory = Memory(1)
        if event[0] != "takeover":
            for b in before.sessions:
                deadline = Instant(0) if event == ("expire", b) else NEVER
                memory.sessions[b] = Session(str(b) if b in before.bound else None, deadline)
        return ClusterState(rows, memory)

    def _events(self, event: tuple[Any, ...]) -> list[Event]:
        match event:
            case ("takeover",):
                return [TookOver(1)]
            case ("hello", b, run, epoch, lost):
                hello = BrokerHello(
                    broker_id=b,
                    incarnation=f"{run}",
                    endpoints={},
                    broker_epoch=epoch,
                    lost_tail=lost,
                )
                return [Hello(str(b), hello)]
            case ("close", b):
                return [LinkClosed(str(b))]
            case ("proposal", b, base, isr, epochs):
                wanted = IsrProposal(
                    topic_id=TOPIC, partition=0, base_version=base, isr=isr, broker_epochs=dict(epochs)
                )
                return [Heard(str(b), AlterPartition(proposals=(wanted,)), FRESH)]
            case ("wish", b, target):
                wish = WantedReplicas(topic=NAME, partition=0, replicas=target)
                return [Heard(str(b), AlterReassignments(partitions=(wish,)), FRESH)]
            case _:
                return [TimePassed()]

    def _frozen(self, state: ClusterState) -> Control:
        rows, sessions = state.rows, state.memory.sessions
        move = rows.reassignments.get((TOPIC, 0))
        if move is not None:
            move = msgspec.structs.replace(move, id=MOVE, principal="", reason="")
        brokers = [rows.brokers[b] for b in range(1, self.brokers + 1)]
        return Control(
            rows.metadata_version,
            rows.partitions[TOPIC, 0],
            move,
            tuple(row.live for row in brokers),
            tuple(row.broker_epoch for row in brokers),
            tuple(int(row.incarnation) for row in brokers),
            frozenset(sessions),
            frozenset(b for b, one in sessions.items() if one.link is not None),
        )


def _welcomes(saying: Any) -> bool:
    return isinstance(saying, Say) and isinstance(saying.frame, HelloAccepted)


def _judge_turn(before: Control, after: Control, event: tuple[Any, ...], min_insync: int) -> None:
    """What the table says of each turn. Raises Broken."""
    row, move = after.row, after.move
    assigned, adding, removing = set(row.assigned), set(row.adding), set(row.removing)
    if not row.isr or not set(row.isr) <= assigned or row.leader not in (NO_LEADER, *row.isr):
        raise Broken("leader in ISR within AR is broken")
    if set(before.row.assigned) - assigned and row.leader_epoch == before.row.leader_epoch:
        raise Broken("a replica was dropped without another leader epoch")
    if row.leader_epoch < before.row.leader_epoch or (row.leader != before.row.leader) > (
        row.leader_epoch - before.row.leader_epoch
    ):
        raise Broken("a leader came without another leader epoch")
    in_progress = move is not None and move.phase is Phase.IN_PROGRESS
    if (adding or removing) and not in_progress:
        raise Broken("replicas come and go without a reassignment in progress")
    if move is not None and in_progress:
        between = (set(move.origin), set(move.target)) == (assigned - adding, assigned - removing)
        if not between:
            raise Broken("the row is not between origin and target")
    if before.move is not None and move is None:
        is_done = row.assigned == before.move.target
        if event[0] != "wish" and not is_done:
            raise Broken("a reassignment ended that nobody ended")
        if is_done and before.move.phase is Phase.IN_PROGRESS and not adding:
            if len(row.isr) < min(min_insync, len(row.assigned)) and event[0] != "wish":
                raise Broken("switched with fewer in sync than the floor of the target")
            if not set(before.row.adding) <= set(row.isr):
                raise Broken("switched before the new replicas were in sync")
    if (
        move is not None
        and before.move is not None
        and event[0] != "wish"
        and move.target != before.move.target
    ):
        raise Broken("a reassignment has another target that nobody asked for")
