"""This room is the Kafka door of a node: it hands each request to the room that answers it."""

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from coordinator.service import ShardService
from gateway.administration import NodeController
from gateway.asking import Shards
from gateway.cluster import ClusterOfNode
from gateway.committing import CommitHandler
from gateway.deletions import DeletionHandlers
from gateway.known_configs import ConfigsOfNode
from gateway.members import MemberHandlers
from gateway.questions import QuestionHandlers
from gateway.session import KafkaSession
from gateway.translation.records import RECORD_REQUESTS, record_refusal
from kafkaserver import sasl
from kafkaserver.admin.log_dirs import NO_FOLDER, answer_alter_log_dirs, answer_log_dirs
from kafkaserver.admin.table import admin_handlers
from kafkaserver.callers import caller_of
from kafkaserver.cluster_answers import answer_api_versions, answer_describe_cluster
from kafkaserver.finding import HELD_MAX_MS, answer_find_coordinator, groups_looked_for
from kafkaserver.guard import Guard
from kafkaserver.later import Later
from kafkaserver.limits import ServerLimits, client_limits
from kafkaserver.metadata_answers import CatchUp, MetadataHandler
from kafkaserver.producer_ids import ProducerIds
from kafkaserver.replies import Handler, Reply
from kafkaserver.server import KafkaServer
from muster.kafkawire.api_table import ApiKey, RequestHeader, read_request, shapes_loaded
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.kernel.shards import shard_of
from muster.kernel.token_text import TOKEN_BEGINS
from muster.messages.link.callers import CallerRow
from runtime import metrics
from runtime.ports import NodeContext, shard_lane

HELD_LOOK_MS: Final = 20
"""So often is looked whether a shard has an owner while somebody waits for one."""


class NodeListener:
    """The door of group members; what it tells of the cluster is what every broker tells."""

    def __init__(
        self,
        node: NodeContext,
        services: Mapping[str, ShardService],
        limits: ServerLimits | None = None,
        guard: Guard | None = None,
        static_configs: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`static_configs`: what this node was started with, by the one name of each config."""
        self._node = node
        self._guard = guard or Guard()
        self._known: tuple[CallerRow, ...] | None = None
        self._counted: dict[str, int] = {}
        self._cluster = ClusterOfNode(node)
        self._callers = next(iter(services.values())).premises.callers
        self._later = Later()
        shards = Shards(services)
        members = MemberHandlers(shards, self._later)
        questions = self._questions = QuestionHandlers(shards, self._cluster, self._later)
        deletions = DeletionHandlers(shards, self._cluster, self._later)
        self._producer_ids = ProducerIds(self._cluster.producer_ids)
        controller = self._controller = NodeController(node, self._cluster)
        known_configs = ConfigsOfNode(node, static_configs)
        admin = admin_handlers(controller, self._later, node.now, self._cluster.name_of, known_configs)
        self._handlers: dict[int, Handler] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata_handler(),
            ApiKey.DESCRIBE_CLUSTER: self._describe_cluster,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.INIT_PRODUCER_ID: self._producer_ids.handle,
            **admin,
            ApiKey.JOIN_GROUP: members.join,
            ApiKey.SYNC_GROUP: members.sync,
            ApiKey.LEAVE_GROUP: members.leave,
            ApiKey.HEARTBEAT: members.heartbeat,
            ApiKey.OFFSET_COMMIT: CommitHandler(shards, self._cluster).handle,
            ApiKey.OFFSET_FETCH: questions.fetch_offsets,
            ApiKey.DESCRIBE_GROUPS: questions.describe,
            ApiKey.LIST_GROUPS: questions.list_groups,
            ApiKey.DELETE_GROUPS: deletions.delete_groups,
            ApiKey.OFFSET_DELETE: deletions.delete_offsets,
            ApiKey.ALTER_REPLICA_LOG_DIRS: _has_no_log_dirs,
            ApiKey.DESCRIBE_LOG_DIRS: _describe_no_log_dirs,
            **dict.fromkeys(RECORD_REQUESTS, _refuse_records),
            **dict.fromkeys((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE), sasl.refuse),
        }
        guard = self._guard
        guard.wait_for_newcomers(self._look_for)
        self._looking: set[asyncio.Task[None]] = set()
        self._shapes = shapes_loaded()
        self.server = self._door(limits or client_limits())

    def _door(self, limits: ServerLimits) -> KafkaServer:
        return KafkaServer(
            "groups",
            self._handle,
            limits,
            self._guard.gate,
            self._session,
            self._guard.certificate,
            is_for_short_requests=True,
        )

    def _metadata_handler(self) -> Handler:
        """A member joins anew for partitions that a broker told of, which this node may not have read of yet:
        a leader that then asks here is told no less: nothing would make it look again (librdkafka).
        If nobody can say whether it is less, what it assigns does not count: it joins again, and asks again.

        Nor does anybody hear that there is no topic which another door was just asked to make: kafkajs takes
        that for an answer.
        """
        cluster = self._cluster

        async def catch_up(session: KafkaSession) -> None:
            session.was_told_less = not await cluster.catch_up()

        def newer(reply: Reply, misses_a_topic: bool) -> CatchUp | None:
            session: KafkaSession = reply.session
            must, session.must_catch_up = session.must_catch_up, False
            if must:
                return partial(catch_up, session)
            return cluster.look_for_topics if misses_a_topic else None

        def finds_nodes(reply: Reply) -> bool:
            session: KafkaSession = reply.session
            return session.client.finds_nodes_itself

        return MetadataHandler(cluster.view, self._later, cluster.missed, newer, finds_nodes).handle

    @property
    def answered(self) -> frozenset[int]:
        """The keys of the requests that are answered here."""
        return frozenset(self._handlers)

    def bind(self, host: str, port: int) -> int:
        """Hold the address; clients are refused until `accept`. Returns the port. Raises OSError."""
        return self.server.bind(host, port)

    def tick(self, now: Instant) -> None:
        """Called every 100 ms; clients are taken as soon as they can be told of the cluster.

        One shape of request is loaded each time, before the first that asks in it holds everybody up.
        """
        next(self._shapes, None)
        self._cluster.tick(now)
        self._know_callers()
        self._guard.watch(now, self.server)
        self._count_strangers()
        self._tell_end_of_certificate()
        if self._cluster.is_known and self._guard.may_open:
            self.server.accept()

    def _know_callers(self) -> None:
        callers = self._node.kafka_callers
        if callers is not None and callers is not self._known:
            self._known = callers
            self._guard.know(callers, self.server)
        if callers is not None:
            self._guard.confirmed(self._node.kafka_callers_at)

    def _look_for(self, name: str, peer: str) -> "asyncio.Future[None]":
        task = asyncio.create_task(self._find(name.removeprefix(TOKEN_BEGINS), peer))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)
        return task

    async def _find(self, name: str, peer: str) -> None:
        await self._node.find_caller(name, peer)
        # Nothing is found that is new to the node, though it may be to this door since its last tick.
        self._know_callers()

    def _count_strangers(self) -> None:
        """What the door counted since the last tick goes to the metrics of the node."""
        counters = self.server.counters
        closed_for = {"too_slow": counters.late, "unproved": counters.unproved, "tls": counters.without_tls}
        for why, closed in {**counters.crowding, **closed_for}.items():
            metrics.strangers_closed.labels("kafka", why).inc(closed - self._counted.get(why, 0))
            self._counted[why] = closed

    def _tell_end_of_certificate(self) -> None:
        """It may be another since the last tick."""
        certificate = self._guard.certificate
        if certificate is not None and certificate.ends_at is not None:
            metrics.certificate_ends.labels("kafka").set(certificate.ends_at)

    def woken(self, name: str) -> None:
        """A wake-up came."""
        self._cluster.woken(name)
        self._controller.woken(name)

    async def drain(self, grace_ms: int) -> None:
        """Take nothing new, let answers leave, hang up."""
        self._cluster.stop()
        self._producer_ids.cancel()
        self._controller.stop()
        self._later.stop()
        for task in self._looking:
            task.cancel()
        await self.server.drain(grace_ms)

    def _session(self, peer: str) -> KafkaSession:
        return KafkaSession(peer, self._callers)

    def _handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        self._handlers[header.api_key](header, frame, reply)

    def _api_versions(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        session: KafkaSession = reply.session
        session.client.introduced(header, frame)
        reply.send(answer_api_versions(header))

    def _describe_cluster(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        operations = caller_of(reply).cluster_operations
        reply.send(answer_describe_cluster(self._cluster.view(), header, frame, operations))

    def _find_coordinator(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        self._node.doubt_owner()
        # What cannot be read is refused now: it would wait for nothing, and break off where nobody looks.
        request = read_request(header, frame)
        lanes = {shard_lane(shard_of(group)) for group in groups_looked_for(request)}
        if self._are_owned(lanes):
            reply.send(answer_find_coordinator(self._cluster.view(), header, request))
        else:
            self._later.start(reply, self._find_later(header, request, lanes, reply))

    async def _find_later(
        self, header: RequestHeader, request: Any, lanes: Collection[str], reply: Reply
    ) -> None:
        """A client that hears of no coordinator pauses before it asks again; a lease moves in less time."""
        held_ms = 0
        while held_ms < HELD_MAX_MS and not self._are_owned(lanes):
            await asyncio.sleep(HELD_LOOK_MS / 1000)
            held_ms += HELD_LOOK_MS
        reply.send(answer_find_coordinator(self._cluster.view(), header, request))

    def _are_owned(self, lanes: Collection[str]) -> bool:
        return all(self._cluster.owner_address(lane) is not None for lane in lanes)


def _describe_no_log_dirs(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    """A node holds no logs (design.md 8a rule 7); no directory at all would say that nobody may be told."""
    read_request(header, frame)
    reply.send(answer_log_dirs(header, NO_FOLDER))


def _has_no_log_dirs(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    request = read_request(header, frame)
    reply.send(answer_alter_log_dirs(header, request, lambda *_: ErrorCode.LOG_DIR_NOT_FOUND))


def _refuse_records(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    refusal = record_refusal(header, frame)
    if refusal is None:
        reply.hang_up("a node leads no partition, and acks=0 has no answer")
    else:
        reply.send(refusal)
