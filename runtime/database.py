"""This room names what the heart needs of a database; PostgreSQL and memory obey one contract."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from runtime.ports import Connection, LiveNode
from runtime.work_table import Offered, TurnConnection

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Backend:
    """The server's end of one connection; the start tells two of one process id apart."""

    pid: int
    started: Any


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as its holder knows it: what a fence demands of the row."""

    name: str
    epoch: int


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One turn in the journal; `records` are msgspec structs, stored as JSON."""

    lane: str
    seq: int
    turn_id: UUID
    node: str
    key: str
    cause: str
    summary: Mapping[str, Any]
    records: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Peer:
    """A run that has not ended, as one look shows it; `there`: its session's backend exists.

    `node_id` is the node's number (`runtime.nodes`), `kafka` the host:port of its Kafka listener, if any.
    `came` and `made_way_for` are what it says itself (`Said`).
    """

    run: str
    node: str
    address: str
    draining: bool
    renewals: int
    there: bool
    node_id: int = 0
    kafka: str = ""
    came: frozenset[int] = frozenset()
    made_way_for: str = ""

    def as_node(self) -> LiveNode:
        """What others are told of it."""
        return LiveNode(
            self.run, self.node, self.address, self.draining, self.node_id, self.kafka, self.made_way_for
        )


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A lease as one look shows it; free if nobody holds it or its run has ended."""

    name: str
    run: str | None
    epoch: int
    free: bool


@dataclass(frozen=True, slots=True)
class Look:
    """What one renewal brought. `renewals` is None if the asking run has ended."""

    renewals: int | None
    peers: tuple[Peer, ...]
    leases: tuple[LeaseRow, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """What a run says with its renewal (`runtime.making_way`): the brokers that came to it though it is not
    the controller, and the run that it left the controller to, as brokers reach that one; empty: none.
    """

    came: frozenset[int] = frozenset()
    made_way_for: str = ""


NOTHING_SAID: Final = Said()


class Fenced(Exception):
    """A fence found fewer lease rows than it was to hold: nothing was written."""


@dataclass
class Written:
    """What a committed turn leaves to be done."""

    offered: list[Offered] = field(default_factory=list)


class Link(Protocol):
    """One connection: one transaction after the other, each call one of leases.md section 2.

    Called on one thread at a time. Every method raises `ports.ConnectionLost` when the connection breaks:
    a transaction that was under way then has an unknown outcome.
    """

    @property
    def backend(self) -> Backend:
        """The server's end, by which a later connection can terminate it."""

    def turn(self, held: Held, write: Callable[[TurnConnection], None], *rows: JournalRow) -> Written:
        """Fence, write, journal, commit. Raises Fenced, or what `write` raises, with nothing written.

        Several rows are the turns of several keys, whose numbers follow each other.
        """

    def batch(self, held: Sequence[Held], write: Callable[[Connection], None]) -> None:
        """Fence all by their count, write, commit. Raises Fenced, or what `write` raises.

        `write` executes one statement, with values by name; it runs in one round trip with its fence.
        """

    def call(self, function: Callable[[Connection], Result]) -> Result:
        """Run `function` with each of its statements a transaction of its own."""

    def transaction(self, function: Callable[[Connection], Result]) -> Result:
        """Run `function` in one transaction without a fence (work items, projections)."""

    def epochs(self, names: Sequence[str]) -> Mapping[str, tuple[str | None, int]]:
        """Run and epoch of these leases now, by name."""

    def take(self, name: str, seen_epoch: int, run: str) -> bool:
        """Take the lease from whoever held it under `seen_epoch`: epoch + 1. Waits for its transactions."""

    def resign(self, held: Held) -> bool:
        """Leave the lease to nobody; the epoch rises when the next owner takes it."""

    def last_seq(self, lane: str) -> int:
        """The newest journal entry's number of this lane; 0 if it has none."""

    def turn_at(self, lane: str, seq: int) -> UUID | None:
        """The id of the turn that stands at this place of the journal."""

    def terminate(self, backend: Backend) -> None:
        """End another backend, if it still is the one meant; does not wait for it."""

    def terminate_run(self, run: str) -> None:
        """End every backend of a run; does not wait for them."""

    def begin_run(self, run: str, node: str, address: str, kafka: str = "") -> int:
        """Store a new run whose session is this connection; returns the node's number."""

    def renew(self, run: str, said: Said = NOTHING_SAID) -> Look:
        """Raise the run's renewals, name this backend as its session's, say this, and look around."""

    def end_run(self, run: str, seen_renewals: int) -> bool:
        """End a peer's run, unless it has renewed since it was seen."""

    def leave(self, run: str) -> None:
        """End this node's own run: it stops."""

    def drain(self, run: str) -> None:
        """Say that this run gives its leases away."""

    def shut(self) -> None:
        """Break the connection from any thread: whoever waits in it gets ConnectionLost."""

    def close(self) -> None:
        """Close the connection; nothing is under way."""


class Database(Protocol):
    """Where links come from."""

    def connect(self, run: str, purpose: str) -> Link:
        """Open a link named after the run. Raises ConnectionLost."""
