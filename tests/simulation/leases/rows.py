"""This room is the simulated database of the leases: who holds the controller, and the cluster's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from controller.core.records import ClusterRecord
from controller.core.state import ClusterRows, after_records
from controller.enrolment import hash_of
from controller.store import ControllerStore
from controller.subject import CLUSTER
from muster.messages.link.rows import BrokerRow
from runtime.database import Backend, Held, JournalRow, Written
from runtime.memory import MemoryDatabase, MemoryLink
from runtime.ports import CONTROLLER_LANE, VersionConflict
from tests.simulation.looping import Waits
from tests.simulation.node_process import NodesDatabase

if TYPE_CHECKING:
    from tests.simulation.leases.node import ControllersNode

Result = TypeVar("Result")
EMPTY = ClusterRows.of("a-cluster", 1, 1_000, (), (), ())


class Rows(MemoryDatabase):
    """One lease, the rows of the cluster, the secrets of brokers. `stands_still`: it answers nothing now."""

    def __init__(self, registered: Iterable[int]) -> None:
        super().__init__([CONTROLLER_LANE])
        brokers = [BrokerRow(one, 1, "before", {}, live=False) for one in registered]
        known = ClusterRows.of(EMPTY.cluster_id, 1, 1_000, brokers, (), ())
        self.tables["cluster"] = {CLUSTER: known}
        self.tables["secrets"] = {}
        self.stands_still = False

    @property
    def registered(self) -> frozenset[int]:
        """The brokers of the cluster."""
        return frozenset(self.tables["cluster"][CLUSTER].brokers)

    @property
    def lease(self) -> tuple[str | None, int]:
        """The run that is the controller's, and the epoch."""
        found: tuple[str | None, int] = self.tables["lease"][CONTROLLER_LANE]
        return found

    def node_of(self, run: str | None) -> str:
        """The name of the node whose run this is or was."""
        session = self.tables["session"].get(run)
        return session.node if session is not None else ""

    def enroll(self, broker_id: int, secret: str) -> None:
        """An operator lets this broker in."""
        self.tables["secrets"][broker_id] = hash_of(secret)


class LeasesDatabase(NodesDatabase):
    """The database as one node reaches it; the checks see who takes the lease, and who writes."""

    _rows: Rows
    _node: ControllersNode

    def connect(self, run: str, purpose: str) -> MemoryLink:
        """Open a link (Database.connect)."""
        if self._node.waits and not self._node.cut:
            raise Waits
        return super().connect(run, purpose)

    def _link(self, run: str, backend: Backend) -> MemoryLink:
        return LeasesLink(self._rows, run, backend, self._node)


class LeasesLink(MemoryLink):
    """One connection of a node; nothing is done on it while the way there or the database stands still."""

    def __init__(self, rows: Rows, run: str, backend: Backend, node: ControllersNode) -> None:
        super().__init__(rows, run, backend)
        self._rows, self._node = rows, node

    def transaction(self, function: Callable[[Any], Result]) -> Result:
        """Run `function` (Link.transaction)."""
        self._wait()
        return super().transaction(function)

    def terminate(self, backend: Backend) -> None:
        """End another backend (Link.terminate)."""
        self._wait()
        super().terminate(backend)

    def terminate_run(self, run: str) -> None:
        """End every backend of a run (Link.terminate_run)."""
        self._wait()
        super().terminate_run(run)

    def take(self, name: str, seen_epoch: int, run: str) -> bool:
        """Take the lease (Link.take)."""
        before = self._rows.lease
        try:
            return super().take(name, seen_epoch, run)
        finally:
            if self._rows.lease != before:
                self._node.cluster.checks.taken(self._node, *before)

    def turn(self, held: Held, write: Callable[[Any], None], *rows: JournalRow) -> Written:
        """Fence, write, journal, commit (Link.turn)."""
        before = self._rows.tables["journal"]
        try:
            return super().turn(held, write, *rows)
        finally:
            if self._rows.tables["journal"] is not before:
                self._node.cluster.checks.written(self._node, self.run, held.epoch)

    def end_run(self, run: str, seen_renewals: int) -> bool:
        """End a peer's run (Link.end_run)."""
        ended = super().end_run(run, seen_renewals)
        if ended:
            self._node.cluster.checks.run_ended(run)
        return ended

    def _wait(self) -> None:
        if not self.broken and self._node.waits:
            raise Waits


class Store(ControllerStore):
    """The cluster's rows in memory: what `controller.store` says in SQL."""

    def load(self, connection: Any, key: str) -> ClusterRows:
        rows: ClusterRows = connection.table("cluster")[key]
        return rows.copy()

    def save(self, connection: Any, key: str, before: ClusterRows, records: Sequence[ClusterRecord]) -> None:
        rows: ClusterRows = connection.table("cluster")[key]
        if rows.metadata_version != before.metadata_version:
            raise VersionConflict("the rows are not those of before")
        connection.table("cluster")[key] = after_records(rows, records)
