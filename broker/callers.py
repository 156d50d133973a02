"""This room hears from the controller who may come in at the listener of clients, and asks it for who is new.

A token may be newer than what was told. Its name is asked for once at a time, whoever shows it, in bounded
memory; all that there is has been told before the answer. Who is not asked for waits for what is told anyway.
"""

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from kafkaserver.guard import Guard
from kafkaserver.newcomers import WAITING, Bounds, is_name
from muster.kernel.instants import Instant, elapsed_ms
from muster.kernel.token_text import TOKEN_BEGINS
from muster.messages.link.callers import CallerRow, Callers
from muster.messages.link.from_broker import FromBroker, LookForCaller
from muster.messages.link.protocol import LOOKS_FOR_CALLERS
from muster.messages.link.to_broker import CallerLookedFor

ANSWER_MS: Final = 2_000
"""Longer than whoever is new waits: an answer that comes later is for nobody."""
UNKNOWN_MS: Final = 1_000
"""For so long a name is not asked for again that nobody bore."""
UNKNOWN_NAMES: Final = 1_000


class _Look:
    """One question under way; `again` is for those who came meanwhile: their token may be newer than it."""

    __slots__ = ("again", "asked_at", "before", "done", "name", "peer")

    def __init__(
        self, name: str, peer: str, before: str, done: "asyncio.Future[None]", asked_at: Instant
    ) -> None:
        self.name = name
        self.peer = peer
        self.before = before
        """Of the token that was known under this name, which may be replaced."""
        self.done = done
        self.asked_at = asked_at
        self.again: asyncio.Future[None] | None = None


class ToldCallers:
    """What the present link tells of callers, and the names that are asked for on it."""

    def __init__(
        self,
        guard: Guard,
        know: Callable[[Iterable[CallerRow]], None],
        send: Callable[[FromBroker], bool],
        clock: Callable[[], Instant],
    ) -> None:
        """`know` takes everybody who may come in; `clock` is monotonic, in ms."""
        self._guard = guard
        self._know = know
        self._send = send
        self._clock = clock
        self._telling: tuple[CallerRow, ...] = ()
        """Of a telling that is under way on the present link."""
        self._protocol = 0
        self._numbers = itertools.count(1)
        self._bounds = Bounds(lambda: clock() / 1000)
        self._looks: dict[int, _Look] = {}
        self._unknown: OrderedDict[str, Instant] = OrderedDict()
        """Names that nobody bore, or nobody newer, and when that was said, oldest first."""
        guard.wait_for_newcomers(self.look_for)

    def linked(self, protocol: int) -> None:
        """A link is bound to a node that understands this much (muster.messages.link.protocol)."""
        self._protocol = protocol

    def link_lost(self) -> None:
        """Nobody answers any more; whoever waits goes on waiting for what the next link tells."""
        self._protocol, self._telling = 0, ()
        self._looks.clear()

    def hear(self, frame: Callers) -> None:
        """Heeded when the last frame of a telling has come."""
        self._telling += frame.callers
        if frame.last:
            callers, self._telling = self._telling, ()
            self._know(callers)
            self._guard.confirmed(self._clock())

    def look_for(self, name: str, peer: str) -> "asyncio.Future[None] | None":
        """Done when the controller has told all that there is; None: it is not asked (newcomers.LookFor)."""
        if self._protocol < LOOKS_FOR_CALLERS or not is_name(name):
            return None
        now, loop = self._clock(), asyncio.get_running_loop()
        self._forget(now)
        bare = name.removeprefix(TOKEN_BEGINS)
        for look in self._looks.values():
            if look.name == bare:
                look.again = look.again or loop.create_future()
                return look.again
        if bare in self._unknown or len(self._looks) >= WAITING or not self._bounds.allow(peer):
            return None
        look = _Look(bare, peer, self._prefix(bare), loop.create_future(), now)
        return look.done if self._ask(look) else None

    def looked_for(self, frame: CallerLookedFor) -> None:
        """The controller has told everybody whom it found."""
        look = self._looks.pop(frame.number, None)
        if look is None:
            return
        look.done.set_result(None)
        prefix = self._prefix(look.name)
        if prefix not in ("", look.before):
            again, look.again = look.again, None
            if again is not None:
                again.set_result(None)
        elif look.again is not None:
            # Beyond the bounds they wait for what is told anyway: else two connections would ask without end.
            if self._bounds.allow(look.peer):
                self._ask(_Look(look.name, look.peer, prefix, look.again, self._clock()))
        else:
            self._unknown[look.name] = self._clock()
            if len(self._unknown) > UNKNOWN_NAMES:
                self._unknown.popitem(last=False)

    def _ask(self, look: _Look) -> bool:
        number = next(self._numbers)
        if not self._send(LookForCaller(number=number, name=look.name, peer=look.peer)):
            return False
        self._looks[number] = look
        return True

    def _prefix(self, bare: str) -> str:
        """Of the token that is known under a name, or by that prefix; "": of none."""
        caller = self._guard.caller(bare) or self._guard.caller(TOKEN_BEGINS + bare)
        return "" if caller is None else caller.prefix

    def _forget(self, now: Instant) -> None:
        """What is over: both are in the order of time."""
        while (
            self._looks
            and elapsed_ms((first := next(iter(self._looks.items())))[1].asked_at, now) > ANSWER_MS
        ):
            del self._looks[first[0]]
        while self._unknown and elapsed_ms(next(iter(self._unknown.values())), now) > UNKNOWN_MS:
            self._unknown.popitem(last=False)
