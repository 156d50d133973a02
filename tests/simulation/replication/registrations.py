"""This room lets operators of the simulated world unregister brokers, and looks at who is registered."""

from typing import TYPE_CHECKING
from uuid import UUID

from controller.core.events import Heard
from controller.core.records import Phase
from muster.messages.link.brokers import UnregisterBroker
from muster.messages.link.rows import BrokerRow

if TYPE_CHECKING:
    from tests.simulation.replication.world import World

WISH = UUID(int=5)


class Registrations:
    """Who had which epoch of which broker."""

    def __init__(self) -> None:
        self._runs: dict[tuple[int, int], str] = {}

    def faults(self, world: "World") -> list[tuple[object, ...]]:
        """Operators ask for any broker that is down, or for one that lives."""
        if not world.left("unregister"):
            return []
        return [("unregister", b) for b in world.rows().brokers]

    def unregister(self, world: "World", b: int) -> None:
        sessions = world.controller.state.memory.sessions
        link = next(
            (one.link for other, one in sessions.items() if one.link is not None and other != b), None
        )
        if link is not None:
            world.controller.turn([Heard(link, UnregisterBroker(broker_id=b), WISH)], world.now)

    def look(self, world: "World") -> str:
        """What is broken; "" if nothing is."""
        rows = world.rows()
        registered = rows.brokers.keys()
        for row in rows.partitions.values():
            if not registered >= set(row.assigned):
                return "a partition is assigned to a broker that is not registered"
        for move in rows.reassignments.values():
            if move.phase is Phase.INIT and not registered >= set(move.target):
                return "a reassignment waits for a broker that is not registered"
        if not world.controller.deposed and not registered >= world.controller.state.memory.sessions.keys():
            return "a broker has a session and is not registered"
        return next(filter(None, map(self._run, rows.brokers.values())), "")

    def _run(self, row: BrokerRow) -> str:
        before = self._runs.setdefault((row.broker_id, row.broker_epoch), row.incarnation)
        return "" if before == row.incarnation else "two processes had one broker epoch"
