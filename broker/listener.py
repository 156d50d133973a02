"""This room is the broker's client listener: it hands each Kafka request to the room that answers it."""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, Final, Protocol

from broker.core.cluster_view import ClusterView
from broker.core.fetch_sessions import SessionBounds
from broker.handlers_fetch import FetchHandler, Seat
from broker.handlers_logs import LogHandlers
from broker.handlers_offsets import OffsetHandlers
from broker.handlers_produce import ProduceHandler
from broker.handlers_records import RecordHandlers
from broker.known_configs import ConfigsOfBroker
from broker.replicas import DataPlane
from broker.wakeups import WakeUps
from kafkaserver import sasl
from kafkaserver.admin import asking
from kafkaserver.admin.table import admin_handlers
from kafkaserver.callers import caller_of
from kafkaserver.cluster_answers import answer_api_versions, answer_describe_cluster
from kafkaserver.finding import HELD_MAX_MS, answer_find_coordinator, groups_looked_for
from kafkaserver.guard import Guard
from kafkaserver.later import Later
from kafkaserver.limits import ServerLimits
from kafkaserver.metadata_answers import MetadataHandler
from kafkaserver.missed import MissedBrokers
from kafkaserver.producer_ids import ProducerIdBlock, ProducerIds
from kafkaserver.quotas import ClientQuotas
from kafkaserver.refusals import GROUP_REQUESTS, refuse_groups
from kafkaserver.replies import Handler, Reply
from kafkaserver.server import KafkaServer
from muster.kafkawire.api_table import ApiKey, RequestHeader, read_request
from muster.messages.link.callers import CallerRow

DOUBTED_MAX_MS: Final = 15_000
"""After a link broke the next one is waited for this long: twice as long as it takes where a node hangs.
Later there is no node, and who reads on without one is not to have his records wait behind each search.
"""


class Controller(asking.Controller, Protocol):
    """Whatever a broker asks the controller for its clients."""

    async def producer_ids(self) -> ProducerIdBlock:
        """A block nobody else has. Raises ControllerUnreachable."""


class ClientListener:
    """The door of producers and consumers; it refuses whoever states a replica id."""

    def __init__(
        self,
        plane: DataPlane,
        controller: Controller,
        limits: ServerLimits | None = None,
        guard: Guard | None = None,
        quotas: ClientQuotas | None = None,
        known: ClusterView | None = None,
        session_slots: int = SessionBounds().slots,
        missed: MissedBrokers | None = None,
    ) -> None:
        self._plane = plane
        self._guard = guard or Guard()
        self._is_ready = False
        self._owners_told = asyncio.Event()
        self._owners_told.set()
        self._doubted_until = 0.0
        quotas = quotas or ClientQuotas()
        self._later = Later()
        self._producer_ids = ProducerIds(controller.producer_ids)
        known = known or ClusterView(plane.broker_id)
        self._configs = ConfigsOfBroker(known, plane.topics, lambda: plane.view)
        admin = admin_handlers(controller, self._later, plane.clock, plane.name_of, self._configs)
        offsets = OffsetHandlers(plane, self._later)
        logs = LogHandlers(plane, self._later)
        self.fetches = FetchHandler(plane, WakeUps(), quotas, SessionBounds(slots=session_slots))
        self._handlers: dict[int, Handler] = {
            ApiKey.PRODUCE: ProduceHandler(plane, quotas).handle,
            ApiKey.FETCH: self.fetches.handle,
            ApiKey.LIST_OFFSETS: offsets.list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
            ApiKey.DELETE_RECORDS: RecordHandlers(plane, self._later).delete,
            ApiKey.ALTER_REPLICA_LOG_DIRS: logs.alter_log_dirs,
            ApiKey.DESCRIBE_LOG_DIRS: logs.describe_log_dirs,
            ApiKey.DESCRIBE_PRODUCERS: logs.describe_producers,
            ApiKey.METADATA: _hurries_fetches(self._metadata_handler(missed)),
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.INIT_PRODUCER_ID: self._producer_ids.handle,
            **admin,
            ApiKey.FIND_COORDINATOR: _hurries_fetches(self._find_coordinator),
            ApiKey.DESCRIBE_CLUSTER: self._describe_cluster,
            **dict.fromkeys(GROUP_REQUESTS, refuse_groups),
            ApiKey.SASL_HANDSHAKE: sasl.refuse,
            ApiKey.SASL_AUTHENTICATE: sasl.refuse,
        }
        self.server = KafkaServer(
            "client",
            self._handle,
            limits,
            self._guard.gate,
            self.fetches.seat,
            certificate=self._guard.certificate,
        )

    @property
    def answered(self) -> frozenset[int]:
        """The keys of the requests that are answered here."""
        return frozenset(self._handlers)

    def listen(self, host: str, port: int) -> int:
        """Begin to accept; returns the port. Raises OSError."""
        return self.server.listen(host, port)

    def bind(self, host: str, port: int) -> int:
        """Hold the address; clients are refused until `accept`. Returns the port. Raises OSError."""
        return self.server.bind(host, port)

    def accept(self) -> None:
        """Take clients from now on, or from when it is known who may come in."""
        self._is_ready = True
        if self._guard.may_open:
            self.server.accept()

    def know_callers(self, rows: Iterable[CallerRow]) -> None:
        """These may come in from now on."""
        self._guard.know(rows, self.server)
        if self._is_ready:
            self.server.accept()

    def applied(self, version: int) -> None:
        """Everything up to this metadata version holds here."""
        self._configs.applied(version)

    def owners_doubted(self) -> None:
        """The link broke that tells of them: the node at its end may be the one that ended."""
        self._owners_told.clear()
        self._doubted_until = asyncio.get_running_loop().time() + DOUBTED_MAX_MS / 1000

    def owners_told(self) -> None:
        """A link has told who owns which groups."""
        self._owners_told.set()

    def stop_taking(self) -> None:
        """Take nothing new, nor what has arrived and is held back; answers still leave."""
        self.server.stop_taking()

    async def drain(self, grace_ms: int) -> None:
        """Take nothing new, let answers leave, hang up."""
        await self.server.drain(grace_ms)
        self._producer_ids.cancel()
        self._later.stop()

    def _handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        self._handlers[header.api_key](header, frame, reply)

    def _describe_cluster(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        operations = caller_of(reply).cluster_operations
        reply.send(answer_describe_cluster(self._plane.view, header, frame, operations))

    def _find_coordinator(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        are_known = self._owners_told.is_set() or asyncio.get_running_loop().time() >= self._doubted_until
        # What cannot be read is refused now: it would wait for nothing, and break off where nobody looks.
        request = read_request(header, frame)
        if are_known or not groups_looked_for(request):
            reply.send(answer_find_coordinator(self._plane.view, header, request))
        else:
            self._later.start(reply, self._find_later(header, request, reply))

    async def _find_later(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HELD_MAX_MS / 1000):
                await self._owners_told.wait()
        reply.send(answer_find_coordinator(self._plane.view, header, request))

    def _metadata_handler(self, missed: MissedBrokers | None) -> Handler:
        def finds_nodes(reply: Reply) -> bool:
            seat: Seat = reply.session
            return seat.client.finds_nodes_itself

        handler = MetadataHandler(lambda: self._plane.view, self._later, missed, finds_nodes=finds_nodes)
        return handler.handle

    def _api_versions(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        seat: Seat = reply.session
        seat.client.introduced(header, frame)
        reply.send(answer_api_versions(header))


def _hurries_fetches(handler: Handler) -> Handler:
    """Whoever looks for a leader or a coordinator shall not wait until its own fetch is over.

    librdkafka, which looks again and again while a commit waits, gives up whom it hears of 100 ms later.
    """

    def handle(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        seat: Seat = reply.session
        seat.hurry()
        handler(header, frame, reply)

    return handle
