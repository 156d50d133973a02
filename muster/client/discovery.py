"""This room finds the node that coordinates a group: several nodes are asked at once, each a little later.

Nodes take their turns round robin (000 chapter 7), each consumer beginning somewhere else. A node that
answers is asked again over the same connection until it leads somewhere: while a shard changes hands that
costs it less than a handshake, and the consumer hears of the new owner within a fifth of a second.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from muster.client import clock
from muster.client.errors import ConsumerRefused
from muster.client.transport import (
    OPEN_TIMEOUT_S,
    Forbidden,
    NodeSlow,
    NodeUnreachable,
    Transport,
    Unwelcome,
)
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, elapsed_ms
from muster.messages.errors import RemoteMessageError
from muster.messages.member import ClusterMetadataRequest, ClusterMetadataResponse

logger = logging.getLogger("muster.client")

STAGGER_S: Final = 0.25
"""A node that has not led anywhere for so long does not hold up the next."""
FIRST_ASK_AGAIN_S: Final = 0.15
LAST_ASK_AGAIN_S: Final = 0.5
"""Between two questions to one node, growing by a tenth: thousands may ask while a shard changes hands."""
ANSWER_TIMEOUT_S: Final = 2.0
FIRST_BACKOFF_S: Final = 0.05
LAST_BACKOFF_S: Final = 1.0
"""Between two attempts to reach one node; the others are asked meanwhile."""
LAST_PATIENCE_S: Final = 10.0
"""With a node that did not answer; the first attempt has OPEN_TIMEOUT_S, each one after it twice as long."""
UNWELCOME_MS: Final = 5_000
"""How long nodes may refuse the token before it is believed: not every node has heard of a new one yet."""

_PROBLEMS = (NodeUnreachable, RemoteMessageError, TimeoutError)


class Discovery:
    """Looks for one group's coordinator; `problems` says of each node what stands in the way meanwhile."""

    def __init__(
        self,
        nodes: Sequence[str],
        token: str,
        question: ClusterMetadataRequest,
        hear: Callable[[ClusterMetadataResponse], None],
        ca_file: str | None = None,
    ) -> None:
        self.problems: dict[str, str] = {}
        self._bootstrap = tuple(nodes)
        self._heard: tuple[str, ...] = ()
        self._token = token
        self._ca_file = ca_file
        self._question = question
        self._hear = hear
        self._last = random.choice(self._bootstrap) if self._bootstrap else ""

    def learn_nodes(self, addresses: Sequence[str]) -> None:
        """The nodes that somebody named last; those given at the start are asked as well."""
        if addresses:
            self._heard = tuple(addresses)

    async def find(self, hint: str = "", *, besides: str = "") -> Transport:
        """A connection to the coordinator's node, as soon as some node leads to one.

        `hint` is where it is said to be; `besides` is a node that is neither asked nor followed. Raises
        ConsumerRefused when the token is refused for longer than nodes take to hear of a new one.
        """
        self.problems.clear()
        search = _Search(self, besides)
        try:
            if hint:
                search.go_to(hint)
            return await search.run()
        finally:
            await search.end()

    def next_node(self, asked: Sequence[str]) -> str | None:
        """The next node in the round that is not among `asked`."""
        nodes = list(dict.fromkeys((*self._heard, *self._bootstrap)))
        if self._last in nodes:
            after = nodes.index(self._last) + 1
            nodes = nodes[after:] + nodes[:after]
        for node in nodes:
            if node not in asked:
                self._last = node
                return node
        return None

    async def open(self, address: str, within_s: float) -> Transport:
        """Connect; raises as Transport.open does."""
        return await Transport.open(address, self._token, self._ca_file, within_s)

    async def ask(self, transport: Transport) -> str:
        """Where this node says that the coordinator is; empty: nobody owns the group's shard."""
        await transport.say(self._question)
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            answer = await transport.hear()
        if not isinstance(answer, ClusterMetadataResponse):
            raise NodeUnreachable(f"{transport.address} answered another question")
        self.learn_nodes([node.address for node in answer.nodes])
        self._hear(answer)
        return answer.coordinator_address


class _Search:
    """One search: a task for each node that is asked, one for each node that is said to coordinate."""

    def __init__(self, discovery: Discovery, besides: str) -> None:
        self._discovery = discovery
        self._besides = besides
        self._found: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()
        self._moved_on = asyncio.Event()
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._led_to: dict[str, asyncio.Task[None]] = {}
        self._unwelcome_since: Instant | None = None

    async def run(self) -> Transport:
        while not self._found.done():
            self._moved_on.clear()
            node = self._discovery.next_node([*self._asked, self._besides])
            if node is not None:
                self._asked[node] = asyncio.create_task(self._ask(node), name=f"asking {node}")
            with suppress(TimeoutError):
                async with asyncio.timeout(STAGGER_S):
                    await self._moved_on.wait()
        transport = self._found.result()
        self._found = asyncio.get_running_loop().create_future()
        return transport

    async def end(self) -> None:
        tasks = [*self._asked.values(), *self._led_to.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._found.done() and self._found.exception() is None:
            # Found at the moment when nobody wanted it any more.
            self._found.result().hang_up()

    def go_to(self, address: str) -> None:
        """Somebody says that the coordinator is there."""
        if address not in self._led_to and address != self._besides:
            task = asyncio.create_task(self._insist(address, self._arrive), name=f"going to {address}")
            self._led_to[address] = task

    async def _ask(self, address: str) -> None:
        await self._insist(address, self._converse)

    async def _insist(self, address: str, then: Callable[[Transport], Coroutine[Any, Any, None]]) -> None:
        """Connect and go on, again and again; what goes wrong is noted."""
        backoff_s, patience_s = FIRST_BACKOFF_S, OPEN_TIMEOUT_S
        while not self._found.done():
            try:
                await then(await self._discovery.open(address, patience_s))
                return
            except NodeSlow as problem:
                # Whoever gives up before its turn, again and again, only makes the queue longer.
                patience_s = min(LAST_PATIENCE_S, patience_s * 2)
                self._fails(address, str(problem))
            except Unwelcome as refusal:
                self._fails(address, str(refusal))
                self._not_welcome(address, refusal)
            except _PROBLEMS as problem:
                self._fails(address, str(problem) or "no answer in time")
            await asyncio.sleep(backoff_s * random.uniform(0.75, 1.25))
            backoff_s = min(LAST_BACKOFF_S, backoff_s * 2)

    async def _arrive(self, transport: Transport) -> None:
        if self._found.done():
            transport.hang_up()
        else:
            self._found.set_result(transport)
            self._moved_on.set()

    async def _converse(self, transport: Transport) -> None:
        arrived, pause_s = False, FIRST_ASK_AGAIN_S
        try:
            while not arrived:
                address = await self._discovery.ask(transport)
                if address == transport.address:
                    arrived = True
                elif address:
                    self._note(transport.address, f"the coordinator is {address}")
                    self.go_to(address)
                else:
                    self._fails(transport.address, "nobody serves the group at the moment")
                if not arrived:
                    await asyncio.sleep(pause_s * random.uniform(0.75, 1.25))
                    pause_s = min(LAST_ASK_AGAIN_S, pause_s * 1.1)
        finally:
            if not arrived:
                transport.hang_up()
        await self._arrive(transport)

    def _note(self, address: str, problem: str) -> None:
        if self._discovery.problems.get(address) != problem:
            logger.info("node %s: %s", address, problem)
        self._discovery.problems[address] = problem

    def _fails(self, address: str, problem: str) -> None:
        """The next node need not wait for its turn."""
        self._note(address, problem)
        self._moved_on.set()

    def _not_welcome(self, address: str, refusal: Unwelcome) -> None:
        self._unwelcome_since = self._unwelcome_since or clock.now()
        believed = elapsed_ms(self._unwelcome_since, clock.now()) >= UNWELCOME_MS
        if believed and not self._found.done():
            code = (
                ErrorCode.GROUP_AUTHORIZATION_FAILED
                if isinstance(refusal, Forbidden)
                else ErrorCode.AUTHENTICATION_FAILED
            )
            self._found.set_exception(ConsumerRefused(code, f"{address}: {refusal}"))
            self._moved_on.set()
