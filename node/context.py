"""This room is what a service may ask of the node that it lives in (runtime.ports.NodeContext)."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import structlog
from django.conf import settings

from access import workers
from access.service import kafka_callers, lives_one_of, token_map
from access.tokens import TokenMap
from muster.kernel.instants import Instant, elapsed_ms
from muster.kernel.token_text import read_token
from muster.messages.link.callers import CallerRow
from node.newcomers import Newcomers
from runtime import clock, database_clock, wake
from runtime.freshness import Freshness
from runtime.leases import LeaseKeeper
from runtime.ports import Connection, ConnectionLost, LiveNode
from runtime.side import SideLink

TOKENS_EVERY_MS = 10_000
OLDEST_TOKENS_MS = 60_000
"""A map that could not be refreshed for so long is believed no more: a revoked token must not live on."""

MOST_WAKES = 10_000
"""So many wait for those before them; others are lost, as any may be."""

Result = TypeVar("Result")
log = structlog.get_logger(__name__)


def _tokens_and_callers(connection: Connection) -> tuple[TokenMap, tuple[CallerRow, ...]]:
    database_clock.hear(connection=connection)
    callers = (*kafka_callers(connection), workers.caller_row(settings.SECRET_KEY))
    # Read behind them: whoever hears that they are others finds what has become of each token.
    return token_map(connection), callers


class NodeHeart:
    """NodeContext of this process; `keeper`, `queries` and `wakes` are put in before anybody asks."""

    keeper: LeaseKeeper
    queries: SideLink
    wakes: SideLink

    def __init__(self, node: str, address: str, freshness: Freshness) -> None:
        self._node = node
        self._address = address
        self._freshness = freshness
        self._coalescer = wake.Coalescer(self._send_wakes)
        self._unsent: dict[tuple[str, str], None] = {}
        self._is_sending = False
        self._tokens: TokenMap | None = None
        self.kafka_callers: tuple[CallerRow, ...] | None = None
        self._prefixes: dict[str, str] = {}
        """Of the callers that are known, by their names and by themselves."""
        self._tokens_at = Instant(0)
        self._tokens_wanted = False
        self._reading_tokens = False
        self._newcomers = Newcomers(self._lives_one_of, self._read_tokens, lambda: self._tokens)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def node(self) -> str:
        """This node's name."""
        return self._node

    @property
    def address(self) -> str:
        """The websocket address that this node advertises."""
        return self._address

    @property
    def frozen(self) -> bool:
        """True while this node may answer nothing."""
        return self._freshness.frozen

    def now(self) -> Instant:
        """This node's own clock."""
        return clock.now()

    def live_nodes(self) -> tuple[LiveNode, ...]:
        """Nodes as the last look showed them."""
        return self.keeper.live_nodes()

    def owner_address(self, lane: str) -> str | None:
        """Where members of this lane should connect."""
        return self.keeper.owner_address(lane)

    def doubt_owner(self) -> None:
        """Look soon whether the owners still live."""
        self.keeper.doubt_owner()

    def owners(self) -> Mapping[str, LiveNode]:
        """Who holds which lease."""
        return self.keeper.owners()

    async def query(self, function: Callable[[Connection], Result]) -> Result:
        """Run `function` in a transaction of its own. Raises ConnectionLost."""
        return await self.queries.query(function)

    def wake(self, name: str, key: str = "") -> None:
        """Notify every process; coalesced, may be lost."""
        self._coalescer.wake(name, key)

    @property
    def kafka_callers_at(self) -> Instant:
        """When those who may come in at a Kafka door were read."""
        return self._tokens_at

    @property
    def tokens_known(self) -> bool:
        """False while the map of tokens is missing or too old."""
        return self._tokens is not None and elapsed_ms(self._tokens_at, clock.now()) <= OLDEST_TOKENS_MS

    def verify_token(self, presented: str) -> Any | None:
        """The caller to whom a token belongs; nobody while the map is missing or too old."""
        if self._tokens is None or not self.tokens_known:
            return None
        return self._tokens.verify(presented)

    async def find_token(self, presented: str, address: str) -> bool:
        """Whether to verify a token of an unknown caller again: all were read since."""
        read = read_token(presented)
        return read is not None and await self.find_caller(read[0], address)

    async def find_caller(self, name: str, address: str) -> bool:
        """The same by what a Kafka client says of its token: the public part, or the name."""
        return await self._newcomers.find(name, address)

    async def _lives_one_of(self, names: frozenset[str]) -> bool:
        # While the map is too old nobody is known by it: whoever is found has it read.
        known = {self._prefixes[name] for name in names & self._prefixes.keys()} if self.tokens_known else ()
        try:
            return await self.queries.query(partial(lives_one_of, names=names, known=known))
        except ConnectionLost as error:
            log.info("a token could not be looked for", error=str(error))
            return False

    async def refresh_tokens(self) -> None:
        """Load the map of tokens; at boot, on the wake name `tokens`, and every 10 s.

        Asked while it is being read, it is read once more, however often it was asked for.
        """
        self._tokens_wanted = True
        if self._reading_tokens:
            return
        self._reading_tokens = True
        try:
            while self._tokens_wanted:
                self._tokens_wanted = False
                await self._read_tokens()
        finally:
            self._reading_tokens = False

    async def _read_tokens(self) -> None:
        asked_at = clock.now()
        try:
            tokens, callers = await self.queries.query(_tokens_and_callers)
        except ConnectionLost as error:
            log.warning("tokens could not be refreshed", error=str(error))
            return
        self._tokens, self._tokens_at = tokens, asked_at
        if callers != self.kafka_callers:
            self.kafka_callers = callers
            self._prefixes = {key: one.prefix for one in callers for key in (one.name, one.prefix)}

    def start(self, work: Any) -> None:
        """Run a small coroutine to its end without waiting for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def stop(self) -> None:
        """Wake and query no more."""
        self._coalescer.stop()
        for task in self._tasks:
            task.cancel()

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("node task failed", error=repr(error), exc_info=error)

    def _send_wakes(self, waiting: list[tuple[str, str]]) -> None:
        """What comes while some are sent is sent behind them, each once, as far as it is remembered."""
        for one in waiting:
            if len(self._unsent) < MOST_WAKES:
                self._unsent[one] = None
        if not self._is_sending:
            self._is_sending = True
            self.start(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._unsent:
                waiting, self._unsent = list(self._unsent), {}
                await self._notify(waiting)
        finally:
            self._is_sending = False

    async def _notify(self, waiting: list[tuple[str, str]]) -> None:
        def send(connection: Connection) -> None:
            for name, key in waiting:
                wake.send(connection, name, key)

        try:
            await self.wakes.query(send)
        except ConnectionLost as error:
            log.info("wake-ups were lost", error=str(error), names=len(waiting))
