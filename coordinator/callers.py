"""This room knows who speaks to the groups of this node, by whatever door, and keeps what each says in order.

A lane takes turns and batches one after the other, and what came during a batch may be decided in a turn
before the next batch: of one caller that would put a Leave before the commit that it followed, or write an
old position over one that was acknowledged since.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Any, Protocol

from msgspec import Struct

from coordinator.backlog import Backlog, Said
from coordinator.core.events import ConnectionId
from muster.kernel.error_codes import ErrorCode

HELD_MAX = 1_000
"""How much of one caller may wait: for what it said before, or for the turns that decide it, which come to
nothing while time stands still. How many commits may be in a batch, its door says.
"""


class Caller(Protocol):
    """One connection on which somebody speaks; its door words what it is told."""

    @property
    def id(self) -> ConnectionId:
        """Names the connection; never repeats."""

    @property
    def closing(self) -> bool:
        """True from the decision to hang up on: what is still said there is not heard."""

    def say(self, message: Any) -> None:
        """Tell what the core addressed to this connection."""

    def hang_up(self, error: ErrorCode, text: str) -> None:
        """End the connection. With NOT_COORDINATOR the text is the address of who serves the group now."""


class Callers:
    """The callers of this node that a shard listens to, by id and by shard."""

    def __init__(self) -> None:
        self._by_id: dict[ConnectionId, Caller] = {}
        self._of_shard: dict[int, dict[ConnectionId, Caller]] = {}

    def add(self, caller: Caller, shard: int) -> None:
        """From now on `caller` is heard in `shard`, too."""
        self._by_id[caller.id] = caller
        self._of_shard.setdefault(shard, {})[caller.id] = caller

    def remove(self, caller: Caller, shard: int) -> None:
        """The caller is gone."""
        self._by_id.pop(caller.id, None)
        of_shard = self._of_shard.get(shard, {})
        of_shard.pop(caller.id, None)
        if not of_shard:
            self._of_shard.pop(shard, None)

    def get(self, connection: ConnectionId) -> Caller | None:
        """The caller, if it is still there."""
        return self._by_id.get(connection)

    def of_shard(self, shard: int) -> Iterator[Caller]:
        """Those whose groups belong to a shard."""
        return iter(list(self._of_shard.get(shard, {}).values()))

    def any_of(self, shard: int) -> bool:
        """Whether anybody is heard in this shard."""
        return shard in self._of_shard


class Way(Enum):
    """How something that was said is decided; of one way all keep their order by themselves."""

    TURN = auto()
    BATCH = auto()


_TURN, _BATCH = Way.TURN, Way.BATCH
"""Looked up once: a member of an enum costs as much as a call, and all that is said passes here."""


class _Line(Struct, gc=False):
    """What one caller has said and what is not yet durable, or refused; one is made for most commits."""

    way: Way
    under_way: int = 0
    goes_on: bool = False
    held: deque[tuple[Way, Any]] | None = None


class Orders:
    """What the callers of one shard said: of each, a turn waits for the batch before it, and vice versa.

    `decide` hands something in for a turn, `write` for a batch; each commit passes here, so that nothing is
    made for it but an entry.
    """

    def __init__(
        self, decide: Callable[[Any], None], write: Callable[[Any], None], backlog: Backlog | None = None
    ) -> None:
        self._decide = decide
        self._write = write
        self._backlog = backlog or Backlog()
        self._kept: dict[ConnectionId, Said] = {}
        """What is parked of those who are gone."""
        self._lines: dict[ConnectionId, _Line] = {}
        self._parked: dict[ConnectionId, None] = {}

    def park(self, connection: ConnectionId, item: Any) -> bool:
        """Keep what a caller says first until `release`, and behind it what it says meanwhile.

        False, and nothing is kept, if something is kept of it already.
        """
        if connection in self._lines:
            return False
        line = self._lines[connection] = _Line(_TURN)
        line.held = deque([(_TURN, item)])
        self._parked[connection] = None
        return True

    def parked(self, connection: ConnectionId) -> Sequence[Any]:
        """All that a caller said if nothing of it was handed in yet."""
        if connection not in self._parked:
            return ()
        return [item for _, item in self._lines[connection].held or ()]

    def keep(self, connection: ConnectionId) -> bool:
        """The caller is gone, and what is parked of it stays; False, and it is to be forgone, if too much is
        kept. Its commits were counted when they came.
        """
        said = Said([item[1] for way, item in self._lines[connection].held or () if way is _TURN])
        if not self._backlog.takes(said):
            return False
        self._kept[connection] = said
        return True

    def _keep_no_more(self) -> None:
        for said in self._kept.values():
            self._backlog.left(said)
        self._kept.clear()

    def forgo(self, connection: ConnectionId) -> None:
        """What is parked of a caller will not be handed in."""
        del self._parked[connection]
        del self._lines[connection]

    def release(self) -> None:
        """Hand in what was parked, in the order in which its callers came."""
        self._keep_no_more()
        parked, self._parked = self._parked, {}
        for connection in parked:
            self._go_on(self._lines[connection])

    def turn(self, connection: ConnectionId, item: Any, *, last: bool = False) -> bool:
        """Hand `item` in for a turn: now, or when all is `done` that was said before for a batch.

        False, and nothing is kept, when too much waits already; the `last` thing is always kept.
        """
        line = self._lines.get(connection)
        if line is None:
            line = self._lines[connection] = _Line(_TURN)
        elif line.held or line.way is not _TURN:
            return _hold(line, _TURN, item, last)
        elif line.under_way >= HELD_MAX and not last:
            return False
        line.under_way += 1
        self._decide(item)
        return True

    def batch(self, connection: ConnectionId, item: Any) -> bool:
        """The same for a batch, which waits for turns."""
        line = self._lines.get(connection)
        if line is None:
            line = self._lines[connection] = _Line(_BATCH)
        elif line.held or line.way is not _BATCH:
            return _hold(line, _BATCH, item, False)
        line.under_way += 1
        self._write(item)
        return True

    def done(self, connection: ConnectionId) -> None:
        """One thing that was handed in is durable, or was refused."""
        line = self._lines.get(connection)
        if line is None:
            return
        line.under_way -= 1
        if line.goes_on:
            # What went on was refused at once: a thousand such must not lie on the stack together.
            return
        if line.held:
            self._go_on(line)
            if self._lines.get(connection) is not line:
                # What went on was refused, and the shard given up.
                return
        if not line.under_way:
            del self._lines[connection]

    def _go_on(self, line: _Line) -> None:
        line.goes_on = True
        while line.held and (not line.under_way or line.held[0][0] is line.way):
            line.way, item = line.held.popleft()
            line.under_way += 1
            if line.way is _TURN:
                self._decide(item)
            else:
                self._write(item)
        line.goes_on = False

    def waits_for_a_turn(self, connection: ConnectionId) -> bool:
        """Whether something that this caller said has yet to be decided in a turn."""
        line = self._lines.get(connection)
        if line is None:
            return False
        return line.way is _TURN or any(way is _TURN for way, _ in line.held or ())

    def forget(self) -> list[Any]:
        """The shard was given up: nothing of what was said will be decided here.

        Returns what waited for a batch, in the order of each caller: nobody else knows of it.
        """
        held = [item for line in self._lines.values() for way, item in line.held or () if way is _BATCH]
        self._lines.clear()
        self._parked.clear()
        self._keep_no_more()
        return held


def _hold(line: _Line, way: Way, item: Any, last: bool) -> bool:
    if line.held is None:
        line.held = deque()
    if len(line.held) >= HELD_MAX and not last:
        return False
    line.held.append((way, item))
    return True
