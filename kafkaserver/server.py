"""This room is one Kafka door: a listening address, its connections, and what all of them share.

Each connection is served by `kafkaserver.sockets`; here they are accepted, bounded together and closed.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable
from operator import attrgetter
from typing import Final

import structlog

from kafkaserver.callers import KafkaCaller
from kafkaserver.limits import ServerCounters, ServerLimits
from kafkaserver.neighbours import Neighbours
from kafkaserver.replies import Gate, Handler, Session
from kafkaserver.request_memory import RequestMemory
from kafkaserver.short_requests import ShortRequests
from kafkaserver.sockets import Connection
from kafkaserver.strangers import Strangers
from kafkaserver.tls import Certificate, TlsSocket, why_tls_failed
from kafkaserver.turns import Turns
from muster.kafkawire.errors import FrameTooLarge, KafkaWireError
from muster.kernel.addresses import network_of

log = structlog.get_logger(__name__)

_SHARED_BUFFER_BYTES: Final = 256 * 1024
_FEW_BYTES: Final = 4 * 1024
_ACCEPTS_PER_EVENT: Final = 64
_ANSWERS_TOGETHER: Final = 32
"""No more wait for others: the first of them has waited for as many requests."""

SEND_AT_ONCE_S: Final = 0.004
"""For so long answers leave one after the other before others have their turn: each costs a system call."""

_SAY_EVERY_S: Final = 1.0
"""Strangers must not write our log for us."""

_NOTHING_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class KafkaServer:
    """One listening address and its connections, served on the running event loop."""

    def __init__(
        self,
        name: str,
        handler: Handler,
        limits: ServerLimits | None = None,
        gate: Callable[[str], Gate | None] | None = None,
        session: Callable[[str], Session] | None = None,
        certificate: Certificate | None = None,
        *,
        is_for_short_requests: bool = False,
    ) -> None:
        """`session` makes, of a peer's address, what is kept for its connection. Short requests cannot be
        written into: a broker, which numbers batches in place, is for none.
        """
        self._is_for_short_requests = is_for_short_requests
        self._gate = gate
        self._session = session
        self._certificate = certificate
        self.name = name
        self.handler = handler
        self.limits = limits or ServerLimits()
        self.counters = ServerCounters()
        self.shared_buffer = memoryview(bytearray(_SHARED_BUFFER_BYTES))
        self.few_bytes = min(_FEW_BYTES, self.limits.outbox_bytes, self.limits.answers_bytes)
        self.is_draining = False
        self.memory: RequestMemory[Connection] = RequestMemory(
            self.limits.requests_in_memory_bytes, self._memory_is_there
        )
        self.parked_elements = 0
        """Partitions that requests wait for at this door."""
        self._answers_bytes = 0
        self._accepts_again: asyncio.TimerHandle | None = None
        self._connections: set[Connection] = set()
        self._strangers: Strangers[Connection] = Strangers(
            max(self.limits.connections // 2, 1), self.limits.strangers_of_one_address
        )
        self._neighbours: Neighbours[Connection] = Neighbours(self.limits.connections_of_one_address)
        self._admissions: dict[Connection, asyncio.TimerHandle] = {}
        """Ends a connection unless its peer has said by then who it is."""
        self._said_of_strangers_at = float("-inf")
        self._said_of_neighbours_at = float("-inf")
        self._said_of_frames_at = float("-inf")
        self._said_of_unadmitted_at = float("-inf")
        self._to_flush: set[Connection] = set()
        self._last_answered: Connection | None = None
        self._listening: socket.socket | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self.loop: asyncio.AbstractEventLoop
        self.turns: Turns[Connection]

    @property
    def connection_count(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    @property
    def mute_count(self) -> int:
        """How many of them have to wait, because they have used up their quota."""
        return sum(connection.is_mute for connection in self._connections)

    @property
    def stranger_count(self) -> int:
        """How many of them have not said yet who they are."""
        return len(self._strangers)

    def listen(self, host: str, port: int) -> int:
        """`bind`, then `accept`; returns the port. Raises OSError."""
        bound = self.bind(host, port)
        self.accept()
        return bound

    def bind(self, host: str, port: int) -> int:
        """Hold the address without taking anybody; returns the port, chosen by the system if 0 was asked.

        Until `accept` clients are refused at once, so that they ask another broker. Raises OSError.
        """
        self.loop = asyncio.get_running_loop()
        whose, look = attrgetter("whose"), (Connection.stop_reading, Connection.look_again)
        self.turns = Turns(self.loop, Connection.take_turn, whose, look=look)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.setblocking(False)
        except OSError:
            listening.close()
            raise
        self._listening = listening
        bound: int = listening.getsockname()[1]
        return bound

    def accept(self) -> None:
        """Take clients from now on; nothing happens when it does already, or was drained."""
        if self._listening is None or self._sweep is not None:
            return
        self._listening.listen(1024)
        self.loop.add_reader(self._listening, self._accept)
        self._arm_sweep()

    def _accept(self) -> None:
        assert self._listening is not None
        for _ in range(_ACCEPTS_PER_EVENT):
            try:
                accepted, address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NOTHING_LEFT:
                    self._rest_from_accepting(error)
                    return
                continue  # That client is gone already; the next one is not.
            network = network_of(address[0])
            if len(self._connections) >= self.limits.connections or self._are_too_many(network):
                self.counters.refused += 1
                accepted.close()
                continue
            accepted.setblocking(False)
            with contextlib.suppress(OSError):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self.limits.send_buffer_bytes:
                    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer_bytes)
            gate = self._gate(address[0]) if self._gate is not None else None
            try:
                behind = accepted if self._certificate is None else self._certificate.wrap(accepted)
            except OSError:
                accepted.close()
                continue  # It is gone already, too.
            peer = f"{address[0]}:{address[1]}"
            session = self._session(peer) if self._session is not None else None
            if session is None or isinstance(behind, TlsSocket) or not self._is_for_short_requests:
                connection = Connection(self, behind, peer, gate, session)
            else:
                connection = ShortRequests(self, behind, peer, gate, session)
            if gate is not None:
                within_s = self.limits.admission_ms / 1000
                late = self.loop.call_later(within_s, connection.close_unless_admitted)
                self._admissions[connection] = late
                self._take_in(connection, network)
            connection.whose = network
            self._connections.add(connection)
            self._neighbours.enter(connection, network)
            self.counters.accepted += 1
            self.loop.add_reader(behind, connection.on_readable)

    def _are_too_many(self, network: str) -> bool:
        """True if this address has as many connections as it may; said once a second."""
        is_full = self._neighbours.is_full(network)
        if is_full and self.loop.time() - self._said_of_neighbours_at >= _SAY_EVERY_S:
            self._said_of_neighbours_at = self.loop.time()
            most = self.limits.connections_of_one_address
            log.warning("kafka_address_has_too_many_connections", listener=self.name, of=network, most=most)
        return is_full

    def _take_in(self, connection: Connection, network: str) -> None:
        """A stranger comes; if that makes too many of them, the one that was here longest goes."""
        crowding = self._strangers.enter(connection, network)
        if crowding is None:
            return
        oldest, why = crowding
        self.counters.crowding[why] = self.counters.crowding.get(why, 0) + 1
        oldest.close(f"others want to say who they are: {why}")
        if self.loop.time() - self._said_of_strangers_at >= _SAY_EVERY_S:
            self._said_of_strangers_at = self.loop.time()
            closed = sum(self.counters.crowding.values())
            log.warning("kafka_strangers_closed", listener=self.name, why=why, newest=network, closed=closed)

    def frame_refused(self, peer: str, error: KafkaWireError) -> None:
        """Count what is no request, or too much of one; said once a second, with how many there were."""
        counters = self.counters
        if isinstance(error, FrameTooLarge):
            counters.oversize += 1
        else:
            counters.malformed += 1
        if self.loop.time() - self._said_of_frames_at >= _SAY_EVERY_S:
            self._said_of_frames_at = self.loop.time()
            refused = counters.oversize + counters.malformed
            kind = type(error).__name__
            log.warning("kafka_frame_refused", peer=peer, kind=kind, reason=str(error), refused=refused)

    def not_admitted(self, peer: str, why: str) -> None:
        """Count who did not prove who it is; `why` holds nothing that it said."""
        self.counters.unproved += 1
        self._say_who_was_not_admitted(peer, why)

    def lost(self, peer: str, error: OSError) -> None:
        """Count whose TLS failed: its own word for why is the only one, for the client may have no log.

        Who is gone while it is answered ends TLS in the middle, and nothing is wrong with that.
        """
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            self.counters.without_tls += 1
            self._say_who_was_not_admitted(peer, why_tls_failed(error))

    def _say_who_was_not_admitted(self, peer: str, why: str) -> None:
        if self.loop.time() - self._said_of_unadmitted_at >= _SAY_EVERY_S:
            self._said_of_unadmitted_at = self.loop.time()
            refused = self.counters.unproved + self.counters.without_tls
            log.warning(
                "kafka_client_not_admitted", listener=self.name, peer=peer, reason=why, refused=refused
            )

    def admitted(self, connection: Connection) -> None:
        """It has said who it is."""
        self._is_no_stranger(connection)
        if isinstance(connection.identity, KafkaCaller):
            connection.whose = connection.identity.principal

    def _is_no_stranger(self, connection: Connection) -> None:
        """The timer would hold on to all that the connection holds."""
        self._strangers.leave(connection)
        admission = self._admissions.pop(connection, None)
        if admission is not None:
            admission.cancel()

    def _rest_from_accepting(self, error: OSError) -> None:
        """Whoever knocks stays in the backlog; said once for each time that it begins."""
        assert self._listening is not None
        self.counters.accept_pauses += 1
        if self._accepts_again is None:
            log.warning("kafka_accept_paused", listener=self.name, reason=str(error))
        self.loop.remove_reader(self._listening)
        self._accepts_again = self.loop.call_later(
            self.limits.accept_pause_ms / 1000, self._accept_after_a_rest
        )

    def _accept_after_a_rest(self) -> None:
        if self._listening is None:
            return
        pauses = self.counters.accept_pauses
        self.loop.add_reader(self._listening, self._accept)
        self._accept()
        if self.counters.accept_pauses == pauses:
            self._accepts_again = None

    # -- what connections share

    def _memory_is_there(self, connection: Connection) -> None:
        self.loop.call_soon(connection.read_on)
        if self.memory.has_turn(connection):
            turn_s = self.limits.memory_turn_ms / 1000
            # By its number: no timer keeps a connection in memory that is closed by then.
            self.loop.call_later(turn_s, self._end_turn, self.memory.turns)

    def _end_turn(self, turn: int) -> None:
        connection = self.memory.holder_of(turn)
        if connection is not None:
            self.counters.greedy += 1
            connection.close("its frame came too slowly while memory was short")

    def reclaim_buffers(self) -> None:
        """Memory is short: nobody keeps a buffer for a frame that has not begun."""
        for connection in self._connections:
            connection.rest()

    def answers_grew(self, size_bytes: int) -> None:
        """So many bytes of answers more, or fewer, wait in memory for their peers to take them."""
        self._answers_bytes += size_bytes
        if self._answers_bytes > self.limits.answers_in_memory_bytes and size_bytes > 0:
            self.loop.call_soon(self._hang_up_on_the_greediest)

    def _hang_up_on_the_greediest(self) -> None:
        if self._answers_bytes <= self.limits.answers_in_memory_bytes or not self._connections:
            return
        greediest = max(self._connections, key=lambda connection: connection.answers_bytes)
        self.counters.greedy += 1
        log.warning("kafka_answers_not_taken", peer=greediest.peer, size_bytes=greediest.answers_bytes)
        greediest.close("too many bytes of answers were not taken")

    def answered(self, connection: Connection, waiting_bytes: int) -> None:
        """Send what this connection was answered: at once, or with what others are in this loop turn.

        A send to a client that sleeps wakes it, which costs as much again. Who has many connections is woken
        by the first of them, and takes the other answers as they come; who speaks alone is not kept waiting.
        """
        if not waiting_bytes:
            return
        before, self._last_answered = self._last_answered, connection
        if connection is before or waiting_bytes > self.few_bytes:
            connection.flush_now()
        else:
            if len(self._to_flush) >= _ANSWERS_TOGETHER:
                self._to_flush.discard(connection)
                self._flush_all()
            self.flush_soon(connection)

    def flush_soon(self, connection: Connection) -> None:
        """Send this connection's outbox once, after everything else of this loop turn."""
        if not self._to_flush:
            self.loop.call_soon(self._flush_all)
        self._to_flush.add(connection)

    def _flush_all(self) -> None:
        """Send for a while; when thousands are told together others have a turn in between."""
        waiting, self._to_flush = self._to_flush, set()
        until = self.loop.time() + SEND_AT_ONCE_S
        while waiting:
            waiting.pop().flush()
            if waiting and self.loop.time() > until:
                if not self._to_flush:
                    self.loop.call_soon(self._flush_all)
                self._to_flush |= waiting
                return

    def hang_up_on_others(self, may_stay: Callable[[object], bool]) -> None:
        """Close every connection whose caller proved who it is and may not be here any more."""
        for connection in list(self._connections):
            if connection.identity is not None and not may_stay(connection.identity):
                connection.close("its token was taken back, or changed")

    def hang_up(self, reason: str) -> None:
        """Close every connection there is; whoever comes again is taken."""
        for connection in list(self._connections):
            connection.close_gracefully(reason)

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        self._connections.discard(connection)
        self._is_no_stranger(connection)
        self._neighbours.leave(connection)
        if self._last_answered is connection:
            self._last_answered = None

    def _arm_sweep(self) -> None:
        self._sweep = self.loop.call_later(self.limits.idle_ms / 1000, self._close_idle)

    def _close_idle(self) -> None:
        """Close what was silent for one whole sweep, so after one to two times the idle limit."""
        for connection in list(self._connections):
            if connection.is_idle:
                self.counters.idle += 1
                connection.close("idle")
            else:
                connection.was_active = False
                connection.rest()
        self._arm_sweep()

    def stop_taking(self) -> None:
        """Take no client and no request any more, those too that have arrived; answers still leave."""
        self.is_draining = True
        for timer in (self._sweep, self._accepts_again):
            if timer is not None:
                timer.cancel()
        if self._listening is not None:
            self.loop.remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        for connection in list(self._connections):
            connection.stop_reading()

    async def drain(self, grace_ms: int) -> None:
        """Accept nothing more, let answers leave for at most `grace_ms`, then close everything."""
        self.stop_taking()
        deadline = self.loop.time() + grace_ms / 1000
        while self.loop.time() < deadline and not all(c.is_quiet for c in self._connections):
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.close_gracefully("the server stops")
