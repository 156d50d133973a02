"""This room is the native members' door of a node: who may enter, which shard hears them, in which words."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from access.grants import Operation
from access.service import bearer
from coordinator import patterns
from coordinator.commits import PORTION, Commit
from coordinator.connections import Connections, MemberConnection, SayNow, never_now
from coordinator.core.events import ConnectionId
from coordinator.core.memory import GroupState
from coordinator.core.native import frames
from coordinator.core.native.handle import may_subscribe
from coordinator.core.offsets import Judgement, judge
from coordinator.service import MemberMessage, ShardService
from coordinator.subscription_lists import SubscriptionLists
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import elapsed_ms
from muster.kernel.shards import shard_of
from muster.messages import limits
from muster.messages.errors import POLICY_VIOLATION_CLOSE
from muster.messages.member import (
    ClusterMetadataRequest,
    ClusterMetadataResponse,
    CommitOffsetsRequest,
    OffsetInfo,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    TopicOffsets,
)
from muster.messages.partitions import Partition, each_position
from runtime.ports import NodeContext

Send = Callable[[dict[str, Any]], Awaitable[None]]

PEER_LENGTH = 64
"""What a member's row holds. A proxy's header may say anything, and must not fail a group's turn."""

UNAUTHORIZED = 401
FORBIDDEN = 403
TOO_MANY = 429
UNAVAILABLE = 503
VERIFY_AGAIN_MS = 5_000

LOOKED_AT_TOGETHER = 250
"""Connections per tick when tokens are others: to send so many away holds the loop for some 20 ms."""

HELD_MAX_MS = 500
HELD_LOOK_MS = 20
"""While a shard changes hands its members would ask again and again, each after a pause of its own."""


class ConsumerDoor:
    """Admits consumers and hands what they say to the service of their group's shard."""

    def __init__(self, node: NodeContext, services: Mapping[str, ShardService]) -> None:
        self._node = node
        self._of_shard = {service.shard: service for service in services.values()}
        premises = next(iter(services.values())).premises
        self.limits = premises.settings.door
        self._view = premises.view
        self._callers = premises.callers
        self._speech = premises.speech
        self._connections = Connections(
            max_connections=self.limits.connections,
            max_connections_per_principal=self.limits.connections_per_principal,
        )

        self._lists = SubscriptionLists()
        self._tokens_seen: Sequence[object] | None = None
        """All living tokens at the last tick."""
        self._to_look_at: deque[MemberConnection] = deque()
        """Whose tokens were not looked at since tokens are others, each once."""

    # The handshake.

    def admit(
        self, headers: Mapping[bytes, bytes], peer: str, send: Send, say_now: SayNow = never_now
    ) -> MemberConnection | int:
        """A connection for whoever shows a token that may consume, else the HTTP status of the refusal.

        A node that knows no tokens yet, or none any more, says that it is not available: it must not call
        a good token bad.
        """
        presented = bearer(headers.get(b"authorization"))
        caller = self._node.verify_token(presented) if presented else None
        if presented is None or caller is None:
            return UNAUTHORIZED if presented is None or self._node.tokens_known else UNAVAILABLE
        if not caller.may(Operation.CONSUME):
            return FORBIDDEN
        if not self._connections.has_room_for(caller.principal):
            return TOO_MANY
        connection = MemberConnection(send, peer[:PEER_LENGTH], caller.principal, presented, say_now)
        connection.verified_at = self._node.now()
        connection.groups, connection.topics = caller.groups, caller.topics
        self._connections.add(connection)
        return connection

    async def find(self, headers: Mapping[bytes, bytes], peer: str) -> bool:
        """Whether who is unauthorized is to be admitted again: its token is newer than what was known."""
        presented = bearer(headers.get(b"authorization"))
        return presented is not None and await self._node.find_token(presented, peer)

    def closed(self, connection: MemberConnection) -> None:
        """The socket is gone; nothing more will come from it."""
        self._connections.remove(connection)
        service = self._service_of(connection)
        if service is not None and connection.shard is not None and connection.group_id is not None:
            self._callers.remove(connection, connection.shard)
            service.closed(connection, connection.group_id)

    # The frames.

    def inbound_limit_bytes(self, connection: MemberConnection, size: int) -> int:
        """How long a frame of this connection may be: who owns much may say much."""
        if size <= limits.FRAME_LIMIT_BYTES:
            return limits.FRAME_LIMIT_BYTES
        service = self._service_of(connection)
        owned = service.owned(connection, connection.group_id or "") if service else ()
        return limits.inbound_limit_bytes(len(owned), len({partition.topic_id for partition in owned}))

    def tell_metadata(
        self, connection: MemberConnection, message: ClusterMetadataRequest, held_ms: int = 0
    ) -> None:
        """Answer where the group's coordinator is; while nobody is, one question of each peer is held.

        It is not here before the shard is loaded: whoever registers earlier is hung up on, and comes again.
        """
        owner = self._view.owner_of(message.group_id)
        if owner is None or owner.address != self._node.address:
            self._node.doubt_owner()
        elif not self._of_shard[shard_of(message.group_id)].accepting:
            owner = None
        is_held = held_ms > 0
        may_wait = held_ms < HELD_MAX_MS and (is_held or not connection.is_asking) and not connection.closing
        if is_held or may_wait:
            connection.is_asking = owner is None and may_wait
        if owner is None and may_wait:
            again = partial(self.tell_metadata, connection, message, held_ms + HELD_LOOK_MS)
            asyncio.get_running_loop().call_later(HELD_LOOK_MS / 1000, again)
            return
        answer = ClusterMetadataResponse(
            correlation_id=message.correlation_id,
            error_code=ErrorCode.NONE if owner else ErrorCode.COORDINATOR_NOT_AVAILABLE,
            coordinator_id=owner.id if owner else -1,
            coordinator_address=owner.address if owner else "",
            nodes=self._view.nodes(),
            brokers_info=self._view.brokers(),
        )
        self._speech.answer_at_once(connection.id, connection.say, answer)

    def register(self, connection: MemberConnection, message: RegisterConsumerRequest) -> None:
        """Bind the connection to its group's shard, or say where the group is served."""
        identity = (message.group_id, message.consumer_id)
        if connection.group_id is not None and identity != (connection.group_id, connection.consumer_id):
            connection.close(POLICY_VIOLATION_CLOSE, "one connection serves one consumer")
            return
        refusal = self._beyond_its_token(connection, message) or self._refusal(message)
        if refusal is not None:
            self._speech.answer_at_once(connection.id, connection.say, refusal)
            return
        message = structs.replace(message, topic_count=self._lists.same(message.topic_count))
        connection.group_id, connection.consumer_id = identity
        connection.shard = shard_of(message.group_id)
        self._callers.add(connection, connection.shard)
        self._hear(self._of_shard[connection.shard], connection, message)

    def _beyond_its_token(
        self, connection: MemberConnection, message: RegisterConsumerRequest
    ) -> RegisterConsumerResponse | None:
        """A refusal of what the token does not name; a pattern needs one that is good for every topic."""
        error, what = ErrorCode.GROUP_AUTHORIZATION_FAILED, f"group {message.group_id}"
        if connection.groups.covers(message.group_id):
            topics = connection.topics
            if topics.is_everything:
                return None
            beyond = [wish.topic for wish in message.topic_count if not may_subscribe(topics, wish)]
            if not beyond:
                return None
            error, what = ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic {beyond[0]}"
        return RegisterConsumerResponse(
            correlation_id=message.correlation_id,
            error_code=error,
            error_text=f"the token is not good for {what}",
        )

    def _refusal(self, message: RegisterConsumerRequest) -> RegisterConsumerResponse | None:
        service = self._of_shard[shard_of(message.group_id)]
        if not service.serving:
            return self._elsewhere(message)
        if not service.accepting:
            return RegisterConsumerResponse(
                correlation_id=message.correlation_id, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            )
        try:
            patterns.check(wish.topic for wish in message.topic_count if wish.is_pattern)
        except patterns.InvalidPattern as problem:
            return RegisterConsumerResponse(
                correlation_id=message.correlation_id,
                error_code=ErrorCode.INVALID_SUBSCRIPTION,
                error_text=str(problem)[:1024],
            )
        return None

    def _elsewhere(self, message: RegisterConsumerRequest) -> RegisterConsumerResponse:
        owner = self._view.owner_of(message.group_id)
        if owner is None or owner.address == self._node.address:
            # Nobody owns it, or the last look still shows us as the owner of what we have given up.
            return RegisterConsumerResponse(
                correlation_id=message.correlation_id, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE
            )
        return RegisterConsumerResponse(
            correlation_id=message.correlation_id,
            error_code=ErrorCode.NOT_COORDINATOR,
            coordinator_address=owner.address,
        )

    def heard(self, connection: MemberConnection, message: MemberMessage) -> None:
        """A registered member's answer or farewell."""
        service = self._expect_service(connection)
        if service is not None:
            self._hear(service, connection, message)

    def _hear(self, service: ShardService, connection: MemberConnection, message: MemberMessage) -> None:
        if not service.hear(connection, connection.group_id or "", message, connection.peer):
            connection.close(POLICY_VIOLATION_CLOSE, "too much is unanswered")

    def commit(self, connection: MemberConnection, message: CommitOffsetsRequest, characters: int) -> None:
        """Offsets to commit, said in so many characters; acknowledged after COMMIT."""
        service = self._expect_service(connection)
        if service is None:
            return
        if connection.unanswered_commits >= self.limits.unanswered_commits:
            connection.close(POLICY_VIOLATION_CLOSE, "too many CommitOffsets are unanswered")
            return
        connection.commit_came(characters)
        commit = _MembersCommit(connection, message, characters)
        parts = (commit,) if commit.partitions <= PORTION else commit.parts()
        if not all(service.commit(part) for part in parts):
            connection.commit_answered(characters)
            connection.close(POLICY_VIOLATION_CLOSE, "too much is unanswered")

    def _service_of(self, connection: MemberConnection) -> ShardService | None:
        return None if connection.shard is None else self._of_shard[connection.shard]

    def _expect_service(self, connection: MemberConnection) -> ShardService | None:
        service = self._service_of(connection)
        if service is None:
            connection.close(POLICY_VIOLATION_CLOSE, "RegisterConsumer comes first")
        elif not self._still_admitted(connection):
            self._send_away(connection)
        elif not service.serving:
            owner = self._view.owner_of(connection.group_id or "")
            connection.hang_up(ErrorCode.NOT_COORDINATOR, owner.address if owner else "")
        else:
            return service
        return None

    def tick(self) -> None:
        """Called every 100 ms. Where tokens are others than before, those of all members are looked at, a few
        each time: one that is quiet says nothing for a third of its session, which it chooses itself.
        """
        if not self._node.tokens_known:
            return
        if (tokens := self._node.kafka_callers) is not self._tokens_seen:
            self._tokens_seen = tokens
            # Who waits keeps its place: it has its turn however often tokens are others.
            waiting = set(self._to_look_at)
            self._to_look_at.extend(one for one in self._connections.all() if one not in waiting)
        for _ in range(min(LOOKED_AT_TOGETHER, len(self._to_look_at))):
            connection = self._to_look_at.popleft()
            if not connection.closing and not self._is_admitted(connection):
                self._send_away(connection)

    def _send_away(self, connection: MemberConnection) -> None:
        if self._node.tokens_known:
            connection.close(POLICY_VIOLATION_CLOSE, "AUTHENTICATION_FAILED: the token is gone")
        else:
            connection.hang_up(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no token can be looked up")

    def _still_admitted(self, connection: MemberConnection) -> bool:
        """Every few seconds the token is looked at again: a revoked one does not live on in a socket."""
        recently = elapsed_ms(connection.verified_at, self._node.now()) < VERIFY_AGAIN_MS
        return recently or self._is_admitted(connection)

    def _is_admitted(self, connection: MemberConnection) -> bool:
        """Whether its token is good for it now; topics that are not named any more are taken from it."""
        connection.verified_at = self._node.now()
        caller = self._node.verify_token(connection.presented)
        if caller is None or not caller.may(Operation.CONSUME):
            return False
        connection.groups, connection.topics = caller.groups, caller.topics
        group_id, service = connection.group_id, self._service_of(connection)
        if group_id is None or service is None:
            return True
        if not caller.groups.covers(group_id):
            return False
        if not caller.topics.is_everything:
            service.token_is_good_for(connection, group_id, caller.topics)
        return True


class _MembersCommit(Commit):
    """A CommitOffsets of a native member."""

    __slots__ = ("_characters", "_member", "_request")

    def __init__(self, member: MemberConnection, request: CommitOffsetsRequest, characters: int) -> None:
        # Not by the class above: a call for each of forty thousand a second.
        self.key = member.group_id or ""
        self.connection = member.id
        self.partitions = sum([len(topic.partitions) for topic in request.offset_info]) or 1
        self._member = member
        self._request = request
        self._characters = characters

    def judge(self, state: GroupState) -> Judgement:
        request = self._request
        return judge(state, self.connection, request.consumer_id, each_position(request.offset_info))

    def answer(self, judgement: Judgement) -> None:
        self._member.commit_answered(self._characters)
        self._member.say(frames.commit_answer(self._request.correlation_id, judgement))

    def parts(self) -> Sequence[Commit]:
        """The same as several, of a portion each, to be handed in one behind the other: nobody's commit comes
        between them, nor does a turn (`coordinator.commits`).
        """
        infos = list(_portions(self._request.offset_info))
        whole = _InParts(len(infos), self.answer)
        return [_Part(self.key, self.connection, self._request.consumer_id, info, whole) for info in infos]


class _InParts:
    """What became of a commit is told when its last part is decided: its refusals, or what refused it all."""

    def __init__(self, parts: int, answer: Callable[[Judgement], None]) -> None:
        self._open = parts
        self._answer = answer
        self._refused: dict[Partition, ErrorCode] = {}
        self._error = ErrorCode.NONE

    def decided(self, judgement: Judgement) -> None:
        """One part is."""
        self._open -= 1
        self._refused.update(judgement.refused)
        if self._error is ErrorCode.NONE:
            self._error = judgement.error
        if not self._open:
            whole = self._error is not ErrorCode.NONE
            self._answer(Judgement(refused={} if whole else self._refused, error=self._error))


class _Part(Commit):
    """Of a commit of so many partitions that to judge all of them in one go would hold up everybody."""

    __slots__ = ("_consumer_id", "_info", "_whole")

    def __init__(
        self, key: str, connection: ConnectionId, consumer_id: str, info: OffsetInfo, whole: _InParts
    ) -> None:
        super().__init__(key, connection, sum([len(topic.partitions) for topic in info]))
        self._consumer_id = consumer_id
        self._info = info
        self._whole = whole

    def judge(self, state: GroupState) -> Judgement:
        return judge(state, self.connection, self._consumer_id, each_position(self._info))

    def answer(self, judgement: Judgement) -> None:
        self._whole.decided(judgement)


def _portions(info: OffsetInfo) -> Iterator[OffsetInfo]:
    some: list[TopicOffsets] = []
    left = PORTION
    for topic in info:
        at = 0
        while at < len(topic.partitions):
            cut = topic.partitions[at : at + left]
            some.append(structs.replace(topic, partitions=cut))
            at += len(cut)
            left -= len(cut)
            if not left:
                yield tuple(some)
                some, left = [], PORTION
    if some:
        yield tuple(some)
