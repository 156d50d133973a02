"""This room lets brokers of the simulated world leave, and looks whether they leave by the rules."""

from dataclasses import replace
from typing import TYPE_CHECKING

from controller.core.events import BrokerGone, TimePassed
from controller.core.leaving import is_anybody_released
from controller.core.turn import heard
from muster.messages.link.rows import PartitionKey, PartitionRow

if TYPE_CHECKING:
    from tests.simulation.replication.world import World


class Leavers:
    """What the rows were before the last action, and who has been let go."""

    def __init__(self) -> None:
        self._rows: dict[PartitionKey, PartitionRow] = {}
        self._leaving: set[tuple[int, str]] = set()
        self._let_go: set[tuple[int, str]] = set()

    def may_ping(self, world: "World", b: int) -> bool:
        """True if broker b has applied what the controller does not know of, and somebody waits for it."""
        memory, link = world.controller.state.memory, world.brokers[b].link
        if not memory.leaving or link is None or memory.broker_of(link.link_id) != b:
            return False
        return memory.sessions[b].applied < world.brokers[b].view.metadata_version

    def ping(self, world: "World", b: int) -> None:
        broker, memory = world.brokers[b], world.controller.state.memory
        assert broker.link is not None
        heard(memory, broker.link.link_id, broker.view.metadata_version, world.now, world.settings)
        if is_anybody_released(memory):
            world.controller.turn([TimePassed()], world.now)

    def miss(self, world: "World", b: int) -> None:
        """Its session ends: nobody listens at its address, where its link had closed, or it was not heard."""
        controller, row = world.controller, world.rows().brokers.get(b)
        session, settings = controller.state.memory.sessions[b], controller.settings
        if world.deaths_are_left:
            controller.settings = replace(settings, max_changed_in_bulk=0)
        if session.link is None and row is not None:
            controller.turn([BrokerGone(b, row.broker_epoch)], world.now)
        if b in controller.state.memory.sessions:
            session.deadline = world.now
            controller.turn([], world.now)
        controller.settings = settings

    def set_back(self) -> None:
        """The rows are of an earlier moment: they are compared with none before."""
        self._rows = {}

    def look(self, world: "World") -> str:
        """What is broken; "" if nothing is."""
        rows, registered = world.rows().partitions, world.rows().brokers
        leaving = {(b, row.incarnation) for b, row in registered.items() if row.leaving}
        stayed = {b for b, _ in leaving & self._leaving}
        text = ""
        for row in rows.values():
            before = self._rows.get(row.key, row)
            if row.leader != before.leader and row.leader in stayed:
                text = "a broker that leaves was elected"
            if (set(row.isr) - set(before.isr)) & stayed:
                text = "a broker that leaves was admitted"
        text = text or self._look_at_let_go(world)
        self._leaving, self._rows = leaving, {row.key: row for row in rows.values()}
        return text

    def _look_at_let_go(self, world: "World") -> str:
        if world.controller.deposed:
            return ""
        memory, rows = world.controller.state.memory, world.rows()
        let_go = {(b, rows.brokers[b].incarnation) for b, one in memory.leaving.items() if one.told}
        electable = memory.sessions.keys() - memory.leaving.keys()
        for b, _ in let_go - self._let_go:
            for row in rows.partitions.values():
                if row.leader == b and electable & set(row.isr):
                    return "a broker was let go that leads what another could lead"
        self._let_go |= let_go
        return ""
