"""This room names what the heart asks of services and stores, and what it gives them."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from muster.kernel.decision import Decision
from muster.kernel.instants import Instant
from muster.kernel.shards import SHARD_COUNT as SHARD_COUNT
from muster.messages.link.callers import CallerRow

Connection = Any
"""A psycopg connection inside a transaction, or the in-memory database's; the store knows which."""

State = TypeVar("State")
Record = TypeVar("Record", contravariant=True)
Event = TypeVar("Event", contravariant=True)
Result = TypeVar("Result")

CONTROLLER_LANE = "controller"
EVERYTHING = "*"
"""The wake name after wake-ups may have been lost: whoever cares about anything reads its rows again."""

DUE = "due"
"""The wake name after a door stored work that a lane's owner shall have done, or answer."""


def shard_lane(shard: int) -> str:
    """The name of the lane, and of the lease, of one shard of groups."""
    return f"coordinator/{shard}"


_UNABLE = ("53", "58", "25006")
"""Classes of errors, and one error, of PostgreSQL's appendix A."""

_TOO_MUCH = "54000"
"""More is asked than PostgreSQL can do, such as a key too long for its index; or it can do no more at all."""

_GIVE_NUMBERS = ("GetNewTransactionId", "GetNewMultiXactId")
"""Where PostgreSQL refuses to write anything, as its transactions' numbers would begin anew (wraparound)."""


class VersionConflict(Exception):
    """A row is not at the version that was decided on: nothing is written, the turn decides again."""


class LaneLost(Exception):
    """This node no longer holds the lease: answer NOT_COORDINATOR, drop what was cached."""


class ConnectionLost(Exception):
    """The connection to the database broke, or none was made; a transaction in it has an unknown outcome."""


def is_unable(error: Exception) -> bool:
    """Whether PostgreSQL writes nothing for anybody now: no room, no memory, a disk that fails, read-only, or
    no number left for a transaction.
    """
    state = str(getattr(error, "sqlstate", None))
    if state == _TOO_MUCH:
        return getattr(getattr(error, "diag", None), "source_function", None) in _GIVE_NUMBERS
    return state.startswith(_UNABLE)


def is_unable_behind(error: BaseException) -> bool:
    """The same of what `error` was raised from, as Django's are from PostgreSQL's."""
    return isinstance(error.__cause__, Exception) and is_unable(error.__cause__)


@contextmanager
def lost_where_nothing_is_done() -> Iterator[None]:
    """What PostgreSQL undid (a deadlock, a statement that somebody cancelled), or does for nobody now, counts
    as a lost connection: ask again, or do without.
    """
    try:
        yield
    except VersionConflict as conflict:
        raise ConnectionLost(str(conflict)) from conflict
    except Exception as error:
        if is_unable(error):
            raise ConnectionLost(str(error)) from error
        raise


class Store(Protocol[State, Record]):
    """Reads and writes the rows of one kind of key; called on a lane's thread, inside its transaction."""

    def load(self, connection: Connection, key: str) -> State:
        """The rows of `key` as they are now."""

    def save(self, connection: Connection, key: str, before: State, records: Sequence[Record]) -> None:
        """Write what `records` change, in bulk, on condition that `before` is still the stored version.

        Raises VersionConflict if it is not. The lease is already fenced, the journal follows.
        """


@dataclass(frozen=True, slots=True)
class Entry:
    """What the journal tells people about a turn: its cause in a few words, and numbers by name."""

    cause: str
    summary: Mapping[str, Any]


class Subject(Protocol[State, Event]):
    """What turns are about: the keys of one lane, their cache and their rules (design chapter 4.2).

    All methods but the store's run on the event loop and return at once.
    """

    @property
    def store(self) -> Store[Any, Any]:
        """Reads and writes the rows."""

    def cached(self, key: str) -> State | None:
        """The state of `key` in the owner's cache; None: it must be loaded."""

    def revive(self, key: str, loaded: Any, now: Instant) -> tuple[State, Decision[Any, Any]]:
        """What `store.load` brought, joined with memory, and what is decided about it at once.

        The decision's records, if any, are written as a turn of their own before any event is decided.
        """

    def decide(self, key: str, state: State, events: Sequence[Event], now: Instant) -> Decision[Any, Any]:
        """Decide all `events` at once; no events: time has passed. Changes nothing."""

    def weight(self, event: Event) -> int:
        """How much is written for this event, measured in common events, at least 1: a turn is bounded by it.

        A subscription of a thousand topics is as long as a dozen that name one.
        """

    def beat(self, key: str, now: Instant) -> Instant | None:
        """The look that a decision asked for, outside of turns, if only memory changes; when to look again.

        None, and nothing was done: a turn without events must decide. Not asked while time stands still.
        """

    def postponed(self, key: str, at: Instant) -> Instant | None:
        """Time stood still after a look at `at` was asked for: when it is to be now, outside of turns.

        Earlier than `at` for what must be done by the clocks of others, which went on; None: not at all.
        """

    def before(self, key: str, state: State) -> Any:
        """What `store.save` needs to know of the state decided on (the rows, with their version)."""

    def entry(self, key: str, events: Sequence[Event], decision: Decision[Any, Any]) -> Entry:
        """What the journal shows for this turn; called only when the decision holds records, in the lane's
        thread where they are many.
        """

    def settle(self, key: str, state: State, decision: Decision[Any, Any]) -> None:
        """It is durable: put the state after it into the cache, then say replies, then commands."""

    def drop(self, key: str) -> None:
        """Forget the cached rows of `key`: they may differ from the database's. Connections stay known."""

    def refuse(self, key: str, events: Sequence[Event], error: Exception) -> None:
        """Our own mistake: these events could not be decided or written; hang up on who sent them."""


class SharingStore(Store[State, Record], Protocol):
    """The same of keys of which several may be written in one transaction."""

    def save_all(self, connection: Connection, turns: Sequence[tuple[str, State, Sequence[Record]]]) -> None:
        """`save` the turns of several keys: each by its name, its state before and its records."""


class SharingSubject(Subject[State, Event], Protocol):
    """The same of keys of which several may have their turns in one transaction (Lane.hand_in_sharing)."""

    @property
    def store(self) -> SharingStore[Any, Any]:
        """Reads and writes the rows."""

    def size(self, key: str) -> int:
        """How many rows at most a turn of `key` writes, beside one for each of its events."""


class BatchSource(Protocol):
    """The commits of one lane that wait for the next batch (no turn; design chapter 4.2)."""

    @property
    def has_more(self) -> bool:
        """Whether `gather` has left some of what waited when the batch began: it is asked again in the same
        batch, when what it gave is written or refused.
        """

    def gather(self) -> Mapping[Hashable, Any]:
        """On the loop, the instant before the transaction is sent: judge what waits, or so much of it as may
        hold the loop, in the order in which it came; give the rows by key.
        """

    def write(self, connection: Connection, rows: Mapping[Any, Any]) -> None:
        """On the lane's thread: write the rows of all lanes of this connection, sorted by key, in bulk:
        one statement, its values by name, which must be as good written twice.

        Sources whose `write` compares equal are written by one call.
        """

    def belongs_to(self, key: Any) -> Hashable:
        """Whose row this is: what is one's is written together, and refused together if it cannot be."""

    def committed(self, rows: Mapping[Any, Any]) -> None:
        """On the loop, after COMMIT: these rows are durable; answer who waits for them.

        They are what `gather` gave, or, where others of it spoilt the batch, a part of that.
        """

    def refused(self, rows: Mapping[Any, Any], error: Exception) -> None:
        """On the loop: these rows were not written (LaneLost: nor will they be here)."""


class Lane(Protocol):
    """The queue of one lease: turns and batches of it run one after the other, while it is held."""

    @property
    def name(self) -> str:
        """`controller` or `coordinator/<shard>`."""

    @property
    def epoch(self) -> int:
        """The lease's epoch under which this lane writes now; rises after an unknown outcome."""

    @property
    def frozen(self) -> bool:
        """True while nothing may be answered: the last renewal is too old (leases.md section 5)."""

    def now(self) -> Instant:
        """The lane's own time: the node's clock without the time in which nothing could be heard.

        Whatever expires in this lane is counted by it; its turns are decided at it. Never goes back.
        """

    def answering_now(self) -> Instant | None:
        """`now()`, and None while `frozen`: for what is asked so often that one look at the clock counts."""

    def postpone(self, late_ms: int) -> None:
        """Time stood still for so long: nothing expires for it, and nobody needs to be told one by one."""

    def hand_in(self, subject: Subject[Any, Any], key: str, *events: Any) -> None:
        """Queue events for a turn of `key`, in this order: all that wait, to a limit, are decided at once.

        No events: ask again because time has passed. Returns at once. The lane asks by itself at each
        decision's `look_again_at`. Raises LaneLost after the lane was given up or lost.
        """

    def hand_in_sharing(self, subject: SharingSubject[Any, Any], key: str, *events: Any) -> None:
        """The same of what thousands of keys are asked at once: the turn of this key may be written in one
        transaction with those of others that wait. What comes to nothing there has its own.
        """

    async def submit_turn(self, subject: Subject[Any, Any], key: str, *events: Any) -> None:
        """`hand_in`, then wait until the turn was spoken. Raises LaneLost if that will not happen."""

    def offer_batch(self, source: BatchSource) -> None:
        """Say that `source` has commits: it is asked by `gather` when the next batch begins."""

    async def submit_batch(self, source: BatchSource) -> None:
        """`offer_batch`, then wait until that batch was answered. Raises LaneLost if it never will be."""

    async def read(self, function: Callable[[Connection], Result]) -> Result:
        """Run `function` in a read of this lane that began after this call and proved the lease.

        For loading. Raises LaneLost if another owner may have written.
        """

    async def prove(self) -> None:
        """Return when a look that began after this call has shown that nobody else has written here.

        For answers from the cache that must not be stale: all that wait together cost one look. Raises
        LaneLost if another owner may have written.
        """


class LaneService(Protocol):
    """One shard's coordinator, or the controller: what the node runs while it holds the lease."""

    async def accept(self, lane: Lane) -> None:
        """The lease is ours: load through `lane.read`, arm sessions in full, then accept members."""

    async def wind_down(self) -> None:
        """The lease will be given away: stop accepting and asking, flush what is unwritten."""

    async def give_up(self, new_owner: str | None) -> None:
        """The lease is gone: answer what is parked with NOT_COORDINATOR, hang up naming `new_owner`.

        `new_owner` is its websocket address, None if nobody is known. May come without `wind_down`, and
        before `accept` has returned. Forgets everything.
        """

    def freeze(self) -> None:
        """Answer and expire nothing until `thaw`; parked requests stay parked."""

    def thaw(self, late_ms: int) -> None:
        """Time stood still for `late_ms` (it was frozen, or the loop was late): postpone every expiry.

        May come before `accept` has returned.
        """

    def tick(self, now: Instant) -> None:
        """Called every 100 ms while the lane is held and not frozen."""

    def woken(self, name: str, key: str) -> None:
        """A wake-up came (`topics`, `work <kind> <key>`, …, or EVERYTHING): read the rows it names."""

    def quiet_ms(self, now: Instant) -> int:
        """For how long nothing has moved here; hand-over waits for 30,000. Large if no socket is open."""


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A node whose run has not ended: its name, its number, and where it is reached.

    `address` is its websocket's, `kafka` the host:port of its Kafka listener; empty: it has none.
    `made_way_for`: the run that it left the controller to, as brokers reach that one; empty: none.
    """

    run: str
    node: str
    address: str
    draining: bool = False
    node_id: int = 0
    kafka: str = ""
    made_way_for: str = ""


class NodeContext(Protocol):
    """What a service may ask of the node that it lives in; all on the event loop."""

    @property
    def node(self) -> str:
        """This node's name."""

    @property
    def address(self) -> str:
        """The websocket address that this node advertises."""

    @property
    def frozen(self) -> bool:
        """True while this node may answer nothing."""

    def now(self) -> Instant:
        """This node's own clock, which also runs while the machine sleeps."""

    def live_nodes(self) -> tuple[LiveNode, ...]:
        """Nodes as the last look showed them, this one included, sorted by name."""

    def owner_address(self, lane: str) -> str | None:
        """Where members of this lane should connect; None if nobody holds the lease."""

    def doubt_owner(self) -> None:
        """Somebody looks for an owner who is another node; it may be dead, so look soon."""

    def owners(self) -> Mapping[str, LiveNode]:
        """Who holds which lease, as the last look showed."""

    async def query(self, function: Callable[[Connection], Result]) -> Result:
        """Run `function` in a transaction of its own, off the lanes. Raises ConnectionLost."""

    def wake(self, name: str, key: str = "") -> None:
        """Notify every process; coalesced, at most 20 a second for one name and key; may be lost."""

    @property
    def tokens_known(self) -> bool:
        """False while the map of tokens is missing or too old: nobody can be told apart."""

    @property
    def kafka_callers(self) -> tuple[CallerRow, ...] | None:
        """Who may come in at a Kafka door, as last read; None before that. The same object while alike."""

    @property
    def kafka_callers_at(self) -> Instant:
        """When they were read."""

    def verify_token(self, presented: str) -> Any | None:
        """The caller to whom a token belongs, by the map refreshed every 10 s; None if nobody."""

    async def find_token(self, presented: str, address: str) -> bool:
        """Look in the database for a token that nobody bears by that map; False: it is unknown, or too many
        ask. `address`: of whoever shows it.
        """

    async def find_caller(self, name: str, address: str) -> bool:
        """The same by a token's public part, or its name."""
