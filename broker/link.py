"""This room keeps one websocket to the controller's node: finding it, saying hello, hearing in order.

Rules: replication.md section 3. The old link is closed, and what it still held is dropped, before the next
is opened; a broker relinks at once, then every `broker.relink.interval.ms`.
"""

import asyncio
import contextlib
import itertools
import math
from collections import deque
from typing import Any, Protocol
from urllib.parse import urlsplit

import structlog
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from broker.settings import BrokerSettings
from muster.client.securing import trusting
from muster.client.websocket import Websocket
from muster.kernel.addresses import is_loopback
from muster.kernel.error_codes import ErrorCode
from muster.messages import codec
from muster.messages.errors import RemoteMessageError
from muster.messages.limits import MAX_FRAME_TO_BROKER_BYTES
from muster.messages.link.from_broker import BrokerHello, BrokerPing, FromBroker
from muster.messages.link.to_broker import HelloAccepted, HelloRefused, NotController, ToBroker

log = structlog.get_logger(__name__)

LINK_PATH = "/ws/broker/"
OPEN_TIMEOUT_S = 2.0
CLOSE_TIMEOUT_S = 0.2
HELLO_TIMEOUT_S = 6.0
"""A hello of a new incarnation is a turn, and a turn may wait 2 s for an old transaction, twice."""
SILENT_S = 6.0
LEFT_ALONE_S = 0.5
"""A node that hangs loses its leases in about this time (leases.md section 5): the others are asked before it
is tried again. A client that hears its coordinator every three seconds gives it up after seven of ten at the
earliest, and asks us who it is; the wrong answer would cost it another session.
"""
HURRY_S = 3.0
HURRIED_OPEN_S = 0.3
"""After a silence each node has so long to open: a node that was slow fences who is not back in a second, and
that one, or the others, may be those that answer nothing.
"""
LONGEST_PAUSE_S = 10.0
"""Between two rounds in which no node knows our secret: only an operator ends that."""
FORBIDDEN = 403
MOST_SAID = 4
"""So many nodes a probe tells of."""
OUTBOX_FRAMES = 10_000
"""Frames that may wait for a slow controller before the link is given up."""


class LinkRefused(Exception):
    """The node did not bind this link; `controller_address` names who would, "" if it does not know."""

    def __init__(self, error: ErrorCode, text: str, controller_address: str) -> None:
        super().__init__(f"{error.name}: {text}" if text else error.name)
        self.error = error
        self.controller_address = controller_address


class SharedId(Exception):
    """Another process is this broker, and did not leave: this one gives up."""


class LinkEnded(Exception):
    """The link cannot go on: the peer broke the language, an out-of-date snapshot, a full outbox."""


class SecretRefused(LinkEnded):
    """The node knows no such broker, or another secret of it."""


class Pauses:
    """How long to wait between two rounds, in seconds; longer each time while secrets are refused."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._refused_rounds = 0

    def after(self, *, refused: bool) -> float:
        """The pause after a round, in which a node refused the secret, or none did."""
        self._refused_rounds = min(self._refused_rounds + 1, 16) if refused else 0
        longest_s = max(self._interval_s, LONGEST_PAUSE_S)
        return float(min(self._interval_s * 2**self._refused_rounds, longest_s))


_ENDS_OF_A_LINK = (
    OSError,
    TimeoutError,
    InvalidHandshake,
    InvalidURI,
    ConnectionClosed,
    LinkEnded,
    RemoteMessageError,
)


class Hearer(Protocol):
    """Who stands behind the link: it says hello, obeys frames in order, and keeps nothing of an old link."""

    def hello(self) -> BrokerHello:
        """The first frame of a new link; called after the old one is gone."""

    def accepted(self, frame: HelloAccepted) -> None:
        """The link is bound; the snapshot follows. May raise LinkEnded."""

    async def obey(self, frame: ToBroker) -> None:
        """Obey one frame; the next is read when this returns. May raise LinkEnded."""

    def ping(self, number: int) -> BrokerPing:
        """What the next ping says."""

    def link_lost(self) -> None:
        """The link is closed; its unread frames are dropped."""


class ControllerLink:
    """The link of one broker process; `run` keeps it up until cancelled.

    `known_nodes` is the bootstrap list followed by the nodes that the controller named, so that a broker
    finds its way when all bootstrap nodes were replaced.
    """

    def __init__(self, settings: BrokerSettings, hearer: Hearer) -> None:
        self._settings = settings
        self._hearer = hearer
        self._bootstrap = settings.nodes
        self._learned: tuple[str, ...] = ()
        self._named: str = ""
        self._silent: str = ""
        """The node that answered nothing any more when the link was lost; empty from the next link on."""
        self._silent_since = -math.inf
        self._outbox: asyncio.Queue[bytes] | None = None
        self._pings = itertools.count(1)
        self._ping_now = asyncio.Event()
        self._told: dict[str, tuple[bool, str]] = {}
        """By address, the last one last: what was logged of it, and whether it says what is wrong."""
        self._is_refused = False
        """In the present round some node refused the secret."""
        self._kept_out_since: float | None = None
        self.connected_to = ""

    @property
    def known_nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._bootstrap, *self._learned)))

    @property
    def bound(self) -> bool:
        """True from HelloAccepted until the link is lost."""
        return self._outbox is not None

    @property
    def why_unlinked(self) -> str:
        """What a node said that refused this broker; else what became of the last attempts."""
        refusals = [text for says_why, text in self._told.values() if says_why]
        if refusals:
            return refusals[-1]
        # One that names the controller, and the one that it names: each alone tells half of it.
        return "; ".join([text for _, text in self._told.values()][-MOST_SAID:]) or "not tried yet"

    def learn_nodes(self, addresses: tuple[str, ...]) -> None:
        """Replace what was learned before; the bootstrap list stays."""
        self._learned = addresses

    def send(self, frame: FromBroker) -> bool:
        """Put a frame into the outbox; False if there is no link (the frame is then nobody's)."""
        if self._outbox is None:
            return False
        try:
            self._outbox.put_nowait(codec.encode(frame))
        except asyncio.QueueFull:
            # Said by the writer: a frame that is left out silently would be a proposal that never ends.
            self._outbox.get_nowait()
            self._outbox.put_nowait(b"")
        return True

    def ping_soon(self) -> None:
        """Send the next ping now: a version was applied and somebody may be waiting for it."""
        self._ping_now.set()

    async def run(self) -> None:
        """Link, hear, relink; ends only by cancellation, or by a mistake of our own.

        Raises SharedId.
        """
        pauses = Pauses(self._settings.relink_interval_ms / 1000)
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            await self._one_round()
            pause_s = pauses.after(refused=self._is_refused)
            await asyncio.sleep(max(0.0, pause_s - (loop.time() - started)))

    async def _one_round(self) -> None:
        """Try each known node once, the one last named first, one that hangs last or not yet; ends when a
        link that lived is lost.
        """
        self._is_refused = False
        waiting = deque(sorted((self._named, *self.known_nodes), key=lambda one: one == self._silent))
        tried: set[str] = set()
        while waiting:
            address = waiting.popleft()
            if not address or address in tried or (address == self._silent and self._leaves_alone()):
                continue
            tried.add(address)
            was_bound, self._named = await self._live_on(address)
            if was_bound:
                self._is_refused = False
                return
            waiting.appendleft(self._named)
        self._told = {address: told for address, told in self._told.items() if address in tried}

    def _leaves_alone(self) -> bool:
        """Whether others are asked alone, as one of them is about to take what the silent node had."""
        return self._is_silent_for_less_than(LEFT_ALONE_S) and any(
            address != self._silent for address in self.known_nodes
        )

    def _is_silent_for_less_than(self, some_s: float) -> bool:
        return asyncio.get_running_loop().time() < self._silent_since + some_s

    async def _live_on(self, address: str) -> tuple[bool, str]:
        """One link to one node, from open to close: whether it was bound, and where to go next, if known."""
        was_bound, named = False, ""
        try:
            await self._one_link(address)
        except LinkRefused as refused:
            named = refused.controller_address
            self._failed(address, refused)
            self._judge(refused)
        except _ENDS_OF_A_LINK as error:
            self._is_refused = self._is_refused or isinstance(error, SecretRefused)
            self._failed(address, error)
        finally:
            if self._outbox is not None:
                was_bound, self._outbox, self.connected_to = True, None, ""
                self._hearer.link_lost()
        return was_bound, named

    def _judge(self, refused: LinkRefused) -> None:
        """Give up when another process of this id has kept this one out for too long. Raises SharedId.

        Not at once: after a crash of the machine the old session takes its time to end.
        """
        now = asyncio.get_running_loop().time()
        if refused.error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._kept_out_since = now if self._kept_out_since is None else self._kept_out_since
            if (now - self._kept_out_since) * 1000 >= self._settings.initial_broker_registration_timeout_ms:
                raise SharedId(str(refused)) from refused

    def _failed(self, address: str, error: Exception) -> None:
        text = f"{address}: {type(error).__name__} {error}"
        if text != self._told.pop(address, (False, ""))[1]:
            log.warning("no link", reason=text)
        is_refusal = isinstance(error, LinkRefused) and error.error is not ErrorCode.NOT_CONTROLLER
        self._told[address] = (is_refusal or isinstance(error, SecretRefused), text)

    async def _one_link(self, address: str) -> None:
        authorization = f"Bearer {self._settings.broker_id}:{self._settings.secret}"
        try:
            connection = await Websocket(
                address + LINK_PATH,
                **_security(address, self._settings.ca_file),
                additional_headers={"Authorization": authorization},
                open_timeout=HURRIED_OPEN_S if self._is_silent_for_less_than(HURRY_S) else OPEN_TIMEOUT_S,
                close_timeout=CLOSE_TIMEOUT_S,
                ping_interval=None,
                compression=None,
                max_size=MAX_FRAME_TO_BROKER_BYTES,
                # A controller that is found through a proxy of the environment would be a surprise.
                proxy=None,
            )
        except InvalidStatus as error:
            if error.response.status_code == FORBIDDEN:
                text = "it knows no broker by this secret: enroll this one, or give it the secret that it has"
                raise SecretRefused(text) from error
            raise
        except ValueError as error:
            # A host that cannot be one: some node was told a wrong name for itself.
            raise LinkEnded(f"no address: {error}") from error
        try:
            session_timeout_s = await self._say_hello(connection, address)
            await self._converse(connection, session_timeout_s)
        finally:
            await connection.close()

    async def _say_hello(self, connection: ClientConnection, address: str) -> float:
        """Returns the session timeout in seconds. Raises LinkRefused."""
        await connection.send(codec.encode(self._hearer.hello()), text=True)
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                data = await connection.recv()
        except TimeoutError:
            raise TimeoutError(f"no answer to the hello within {HELLO_TIMEOUT_S:g} s") from None
        frame = codec.decode_to_broker(data)
        if isinstance(frame, HelloRefused):
            raise LinkRefused(frame.error, frame.text, frame.controller_address)
        if isinstance(frame, NotController):
            raise LinkRefused(ErrorCode.NOT_CONTROLLER, "", frame.controller_address)
        if not isinstance(frame, HelloAccepted):
            raise LinkEnded(f"{type(frame).__name__} instead of an answer to the hello")
        self._outbox = asyncio.Queue(OUTBOX_FRAMES)
        self.connected_to, self._kept_out_since, self._silent = address, None, ""
        self._told.clear()
        log.info("linked", controller=address, broker_epoch=frame.broker_epoch)
        self._hearer.accepted(frame)
        return frame.session_timeout_ms / 1000

    async def _converse(self, connection: ClientConnection, session_timeout_s: float) -> None:
        """Hear, write and ping until one of them ends; the others are cancelled."""
        tasks = [
            asyncio.ensure_future(self._hear(connection, session_timeout_s)),
            asyncio.ensure_future(self._write(connection)),
            asyncio.ensure_future(self._ping()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _hear(self, connection: ClientConnection, session_timeout_s: float) -> None:
        while True:
            # Pings are answered: a controller that is silent for a session has forgotten this broker.
            patience_s = min(session_timeout_s, SILENT_S)
            try:
                async with asyncio.timeout(patience_s):
                    data = await connection.recv()
            except TimeoutError:
                self._silent = self.connected_to
                self._silent_since = asyncio.get_running_loop().time()
                raise TimeoutError(f"it has said nothing for {patience_s:g} s") from None
            frame = codec.decode_to_broker(data)
            if isinstance(frame, NotController):
                raise LinkRefused(ErrorCode.NOT_CONTROLLER, "the lease moved", frame.controller_address)
            await self._hearer.obey(frame)

    async def _write(self, connection: ClientConnection) -> None:
        assert self._outbox is not None
        while True:
            data = await self._outbox.get()
            if not data:
                raise LinkEnded(f"more than {OUTBOX_FRAMES} frames wait for the controller")
            await connection.send(data, text=True)

    async def _ping(self) -> None:
        interval_s = self._settings.heartbeat_interval_ms / 1000
        while True:
            self._ping_now.clear()
            self.send(self._hearer.ping(next(self._pings)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await self._ping_now.wait()


def _security(address: str, ca_file: str | None) -> dict[str, Any]:
    """How the node of this address is spoken to. Raises LinkEnded where others would see the secret.

    Who named the address may have been told wrong: only the first ones were looked at by the settings.
    """
    split = urlsplit(address)
    if split.scheme == "wss":
        return {"ssl": trusting(ca_file), "ssl_shutdown_timeout": CLOSE_TIMEOUT_S}
    if split.scheme != "ws" or not is_loopback(split.hostname or ""):
        raise LinkEnded("it is on another machine and speaks no TLS")
    return {}
