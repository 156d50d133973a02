"""This room answers consumers' Fetch: whose session it belongs to, and who is remembered."""

from typing import Final

from broker.consumer_session import ConsumerSession
from broker.core.fetch_sessions import (
    FINAL_EPOCH,
    FIRST_EPOCH,
    NO_SESSION,
    FetchSessions,
    SessionBounds,
    Turns,
    next_number,
)
from broker.nearest import NearestReplicas
from broker.replicas import DataPlane
from broker.wakeups import WakeUps
from kafkaserver.clients import Client
from kafkaserver.quotas import ClientQuotas
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import SERVED, ApiKey, RequestHeader
from muster.kafkawire.fetch_requests import TOPIC_IDS_SINCE, FetchRequest, read_fetch
from muster.kafkawire.fetching import fetch_refusal
from muster.kernel.addresses import network_of
from muster.kernel.error_codes import ErrorCode

MOST_PARTITIONS: Final = SERVED[ApiKey.FETCH].limit_elements
"""Of one session, however many requests named them."""


class Seat:
    """What the door keeps for one connection: its client, and its consumer's session, which ends with it."""

    __slots__ = ("_parked", "_sessions", "address", "client", "session")

    known = None
    """Nobody fetches or produces the same twice."""

    def __init__(self, peer: str, sessions: FetchSessions[ConsumerSession]) -> None:
        host, _, _ = peer.rpartition(":")
        self.address = network_of(host)
        self.client = Client()
        self.session: ConsumerSession | None = None
        self._sessions = sessions
        self._parked: dict[ConsumerSession, None] = {}
        """Fetches that wait, of sessions that nobody remembers."""

    def repeated(self, received: bytes) -> None:
        """Nor but for some numbers."""

    def admitted(self, identity: object) -> None:
        """Its client has proved who it is."""

    def ended(self) -> None:
        """The connection is gone."""
        if self.session is not None:
            self.session.close()

    def parks(self, session: ConsumerSession) -> None:
        """Its fetch waits, and it ends with the answer."""
        self._parked[session] = None

    def hurry(self) -> None:
        """Something else was asked behind the fetches that wait: they are answered with what there is."""
        if self.session is not None:
            self.session.answer_parked()
        for session in list(self._parked):
            session.answer_parked()

    def left(self, session: ConsumerSession) -> None:
        """This session is over."""
        self._parked.pop(session, None)
        self._sessions.leave(session)
        if self.session is session:
            self.session = None


class FetchHandler:
    """Serves consumers' fetches from one data plane. A connection has one session at most."""

    def __init__(
        self,
        plane: DataPlane,
        wake_ups: WakeUps,
        quotas: ClientQuotas,
        bounds: SessionBounds,
    ) -> None:
        self._plane = plane
        self._wake_ups = wake_ups
        self._quotas = quotas
        self.sessions: FetchSessions[ConsumerSession] = FetchSessions(bounds)
        self.nearest = NearestReplicas(plane)
        self._last_session_id = NO_SESSION

    def seat(self, peer: str) -> Seat:
        """Of a new connection from this address and port."""
        return Seat(peer, self.sessions)

    def handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Answer or park. Raises MalformedFrame; a replica id is refused (design.md section 8)."""
        request = read_fetch(header, frame)
        seat: Seat = reply.session
        by_id = header.api_version >= TOPIC_IDS_SINCE
        if request.replica_id < 0 and request.session_epoch not in (FIRST_EPOCH, FINAL_EPOCH):
            self._go_on(header, request, reply, by_id)
            return
        if seat.session is not None:
            # Whoever names everything begins anew, whatever it remembers.
            seat.session.end()
        session = ConsumerSession(
            self._plane, self.nearest, self._quotas, self._wake_ups, seat.left, by_id=by_id
        )
        session.move(request.topics)
        if request.replica_id >= 0:
            session.refuse(header, reply, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            return
        if request.session_epoch == FIRST_EPOCH and session.size:
            self._keep(session, seat)
        session.fetch(header, request, reply)
        if session.waits and not session.is_kept:
            seat.parks(session)

    def _go_on(self, header: RequestHeader, request: FetchRequest, reply: Reply, by_id: bool) -> None:
        session = reply.session.session
        error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session is not None and session.turns.session_id == request.session_id:
            error = self._take_turn(session, request, by_id)
        if error is ErrorCode.NONE:
            session.fetch(header, request, reply)
        else:
            reply.send(fetch_refusal(header, error))

    def _take_turn(self, session: ConsumerSession, request: FetchRequest, by_id: bool) -> ErrorCode:
        error = session.turns.take(request.session_epoch)
        if error is ErrorCode.NONE and session.by_id != by_id:
            error = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if error is not ErrorCode.NONE:
            return error
        session.answer_parked()
        session.move(request.topics)
        session.forget(request.forgotten)
        size = session.size
        if size <= MOST_PARTITIONS and self.sessions.use(session, size, self._plane.clock()):
            return ErrorCode.NONE
        session.end()
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def _keep(self, session: ConsumerSession, seat: Seat) -> None:
        is_kept, gone = self.sessions.enter(session, seat.address, session.size, self._plane.clock())
        for evicted in gone:
            evicted.end()
        if is_kept:
            self._last_session_id = next_number(self._last_session_id)
            session.turns = Turns(self._last_session_id)
            seat.session = session
