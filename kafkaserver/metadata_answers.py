"""This room answers Metadata from the view of the cluster, alike at every door; a long answer in slices."""

import struct
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from kafkaserver.callers import ANYBODY, KafkaCaller, caller_of
from kafkaserver.cluster_answers import (
    NOBODY,
    OPERATIONS_NOT_ASKED,
    BrokerView,
    MetadataView,
    PartitionView,
    TopicView,
)
from kafkaserver.later import Later
from kafkaserver.missed import MissedBrokers
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    build,
    encode_body,
    frame_reply,
    is_flexible,
    part,
    read_request,
    response_class,
)
from muster.kafkawire.numbers import uvarint
from muster.kernel.error_codes import ErrorCode
from muster.kernel.topic_names import can_name_a_topic

FIRST_WITH_IDS: Final = 10
FIRST_BY_ID: Final = 12
"""Since this version a topic may be asked for by its id alone."""

SLICE_BYTES: Final = 64 * 1024
"""So much of an answer is written before others have their turn: some five milliseconds."""

AT_ONCE: Final = 500
"""Partitions, or topics that are asked for, up to which an answer is written in one go."""

LOOKED_THROUGH: Final = 20_000
"""So many are looked through for a lost leader, in about a millisecond; a longer answer waits for nobody."""

_NAME: Final = attrgetter("name")
_NO_ID: Final = bytes(16)
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_PARTITION = struct.Struct(">hii")
_PARTITION_WITH_EPOCH = struct.Struct(">hiii")


CatchUp = Callable[[], Awaitable[None]]
"""Returns when the view is as new as it can be had."""


class MetadataHandler:
    """Metadata at one door."""

    def __init__(
        self,
        view: Callable[[], MetadataView],
        later: Later,
        missed: MissedBrokers | None = None,
        newer: Callable[[Reply, bool], CatchUp | None] = lambda reply, misses: None,
        finds_nodes: Callable[[Reply], bool] = lambda _: False,
    ) -> None:
        """`newer`: what this answer waits for to tell of a newer view, given whether it misses a topic
        (`MetadataAnswer.misses_a_topic`); None: the view is new enough.
        `finds_nodes`: whether who asks for topics by name needs no list of nodes (clients).
        """
        self._view = view
        self._later = later
        self._missed = missed or MissedBrokers()
        self._newer = newer
        self._finds_nodes = finds_nodes

    def handle(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """Answer what fits into one slice now, everything else beside the loop. Raises MalformedFrame.

        An answer that would name a leader whose connection just broke waits for the election, and one that
        would tell of a new partition that nobody leads yet. Who asks again for the same may know of a loss
        before this door does: it is given a moment to hear of it.
        """
        answer = MetadataAnswer(self._view(), header, frame, caller_of(reply))
        answer.lists_nodes = not (answer.is_by_name and self._finds_nodes(reply))
        # Counted once: each topic is looked up for it, and a request may name tens of thousands.
        size = answer.size
        may_wait = self._missed.may_wait and size <= LOOKED_THROUGH
        waits = may_wait and (self._is_too_early(answer) or self._is_again(answer, reply))
        # A few may be named that were just made; through thousands nobody looks twice.
        newer = self._newer(reply, size <= LOOKED_THROUGH and answer.misses_a_topic)
        is_long = size > AT_ONCE
        if waits or newer is not None or is_long:
            work = self._beside(answer, reply, newer, waits=waits, is_long=is_long)
            self._later.start(reply, work, size)
        else:
            self._list_fenced(answer)
            reply.send(answer.whole())

    def _is_too_early(self, answer: "MetadataAnswer") -> bool:
        """True if it would name a lost leader, or tell of partitions that nobody leads yet."""
        missed = self._missed
        # All of them are asked: each is waited for from the first question on, not one behind the other.
        new = [missed.may_soon_be_led(topic) for topic in answer.never_led()]
        return any(new) or answer.is_led_by(missed.lost)

    def _is_again(self, answer: "MetadataAnswer", reply: Reply) -> bool:
        """True if this connection has asked before for topics by name, and would be told of a leader now."""
        would_be_told = answer.is_by_name and answer.is_led_by(answer.view.brokers)
        return would_be_told and self._missed.asks_again(reply.peer)

    def _list_fenced(self, answer: "MetadataAnswer") -> None:
        if answer.is_by_name:
            answer.list_too(self._missed.just_fenced(answer.view))

    async def _beside(
        self,
        answer: "MetadataAnswer",
        reply: Reply,
        newer: CatchUp | None,
        *,
        waits: bool,
        is_long: bool,
    ) -> None:
        """In slices, behind what brings a `newer` view, and if it `waits`, once it is too early no more."""

        def is_too_early() -> bool:
            answer.view = self._view()
            return self._is_too_early(answer)

        if newer is not None:
            await newer()
            answer.view = self._view()
        if waits:
            await self._missed.until_known(is_too_early)
            answer.view = self._view()
        self._list_fenced(answer)
        if is_long:
            await self._later.turn()
        topics: list[bytes] = []
        held_bytes = 0
        for topic in answer.topics():
            topics.append(topic)
            held_bytes += len(topic)
            if held_bytes > SLICE_BYTES:
                held_bytes = 0
                await self._later.turn()
        reply.send(answer.of(topics))


class MetadataAnswer:
    """What the view holds of the topics asked for, by name or id; brokers and controller always, and nodes.

    Topics are never created by asking. Of all topics those are told that `caller` may see; whoever asks for
    another one is refused, whether there is such a topic or not.
    """

    def __init__(
        self,
        view: MetadataView,
        header: RequestHeader,
        frame: memoryview,
        caller: KafkaCaller = ANYBODY,
    ) -> None:
        """Read the request; the frame is not held. Raises MalformedFrame."""
        request = read_request(header, frame)
        self.view = view
        """What is told; another one may take its place before anything is written."""
        self.lists_nodes = True
        """False: only brokers are listed, while there are any."""
        self._listed_too: tuple[BrokerView, ...] = ()
        self._version = version = header.api_version
        self._correlation_id = header.correlation_id
        self._may_see = caller.may_describe
        asked = getattr(request, "include_topic_authorized_operations", False)
        self._topic_operations = caller.topic_operations if asked else None
        asked = getattr(request, "include_cluster_authorized_operations", False)
        self._cluster_operations = caller.cluster_operations if asked else OPERATIONS_NOT_ASKED
        self._asked: Sequence[Any] | None = None
        if request.topics is not None and (version or request.topics):
            # A topic that is asked for twice is answered once, or a small request had an answer of any size.
            key = self._key if version >= FIRST_WITH_IDS else _NAME
            self._asked = tuple({key(asked): asked for asked in request.topics}.values())

    @property
    def is_by_name(self) -> bool:
        """True if topics were named: who asks for all of them, or for none, looks at the cluster."""
        return bool(self._asked)

    @property
    def misses_a_topic(self) -> bool:
        """True if a topic is asked for that there may be by now, and that the caller may see."""
        return any(self._found(asked) is None and self._may_be(asked) for asked in self._asked or ())

    def _may_be(self, asked: Any) -> bool:
        name, topic_id = asked.name, getattr(asked, "topic_id", None)
        return bool(topic_id) or (name is not None and self._may_see(name) and can_name_a_topic(name))

    def is_led_by(self, brokers: Iterable[int]) -> bool:
        """True if one of these, alive as far as is known, would be named as a leader."""
        alive = self.view.brokers.keys() & brokers
        return bool(alive) and any(
            known.leader in alive for topic in self._told() for known in topic.partitions
        )

    def never_led(self) -> Iterator[TopicView]:
        """The topics that are told of with a partition that never had a leader: nobody was ever in sync."""
        for topic in self._told():
            if any(one.leader == NOBODY and not one.in_sync for one in topic.partitions):
                yield topic

    @property
    def _listed(self) -> Iterable[BrokerView]:
        brokers = self.view.brokers
        return self.view.everybody if self.lists_nodes or not brokers else brokers.values()

    def list_too(self, others: Iterable[BrokerView]) -> None:
        """List these beside the brokers that live; as leaders or in sync they are not named."""
        self._listed_too = tuple(others)

    def _told(self) -> Iterator[TopicView]:
        """The topics that are told of."""
        if self._asked is None:
            topics: Iterable[TopicView | None] = self.view.topics.values()
        else:
            topics = (self._found(asked) for asked in self._asked)
        for topic in topics:
            if topic is not None and self._may_see(topic.name):
                yield topic

    def _key(self, asked: Any) -> object:
        """What says which topic is asked for: an id does, whatever name stands beside it."""
        topic_id = getattr(asked, "topic_id", None)
        return topic_id if topic_id and self._version >= FIRST_BY_ID else (asked.name, topic_id)

    def _found(self, asked: Any) -> TopicView | None:
        name, topic_id = asked.name, getattr(asked, "topic_id", None)
        if topic_id:
            name = self.view.names_by_id.get(topic_id)
        return None if name is None else self.view.topics.get(name)

    @property
    def size(self) -> int:
        """About how much is to be written: topics, and partitions where many may be told."""
        if self._asked is None:
            return sum(1 + len(topic.partitions) for topic in self.view.topics.values())
        known = map(self._found, self._asked)
        return sum(1 + (len(topic.partitions) if topic is not None else 0) for topic in known)

    def whole(self) -> bytes:
        """The frame of the answer."""
        return self.of(list(self.topics()))

    def topics(self) -> Iterator[bytes]:
        """One topic after the other, as it is written."""
        if self._asked is None:
            for topic in self.view.topics.values():
                if self._may_see(topic.name):
                    yield self._known(topic)
        else:
            for asked in self._asked:
                yield self._answered(asked)

    def of(self, topics: Sequence[bytes]) -> bytes:
        """The frame of the answer with these topics."""
        version = self._version
        shape = response_class(ApiKey.METADATA, version)
        broker = part(shape, "MetadataResponseBroker")
        tells_operations = 8 <= version <= 10
        operations = {"cluster_authorized_operations": self._cluster_operations} if tells_operations else {}
        without_topics = encode_body(
            build(
                shape,
                brokers=tuple(
                    build(broker, node_id=one.broker_id, host=one.host, port=one.port, rack=one.rack)
                    for one in (*self._listed, *self._listed_too)
                ),
                cluster_id=self.view.cluster_id,
                controller_id=self.view.controller_id,
                topics=(),
                **operations,
            )
        )
        # Behind the topics lie the operations that the caller may do, in some versions, and tags.
        flexible = is_flexible(ApiKey.METADATA, version)
        end = len(without_topics) - (4 if tells_operations else 0) - flexible
        head = without_topics[: end - (1 if flexible else 4)]
        body = b"".join((head, _count(flexible, len(topics)), *topics, without_topics[end:]))
        return frame_reply(ApiKey.METADATA, version, self._correlation_id, body)

    def _answered(self, asked: Any) -> bytes:
        name, topic_id = asked.name, getattr(asked, "topic_id", None)
        if self._version < FIRST_BY_ID and (name is None or topic_id):
            return self._refused(ErrorCode.INVALID_REQUEST, name or "", topic_id)
        if topic_id:
            name = None
        known = self._found(asked)
        told = name if known is None else known.name
        if told is not None and not self._may_see(told):
            return self._refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, topic_id)
        return self._refused(_unknown(name), name, topic_id) if known is None else self._known(known)

    def _refused(self, code: ErrorCode, name: str | None, topic_id: Any) -> bytes:
        return self._topic(code, name, topic_id.bytes if topic_id else _NO_ID, is_internal=False)

    def _known(self, topic: TopicView) -> bytes:
        partitions = _partitions(self._version, self.view.brokers, topic.partitions)
        told = (ErrorCode.NONE, topic.name, topic.topic_id.bytes)
        asked = self._topic_operations
        operations = OPERATIONS_NOT_ASKED if asked is None else asked(topic.name)
        return self._topic(*told, is_internal=topic.is_internal, partitions=partitions, operations=operations)

    def _topic(
        self,
        code: ErrorCode,
        name: str | None,
        topic_id: bytes,
        *,
        is_internal: bool,
        partitions: Sequence[bytes] = (),
        operations: int = OPERATIONS_NOT_ASKED,
    ) -> bytes:
        """MetadataResponseTopic in every version: kio's writer takes ten times as long."""
        version = self._version
        flexible = is_flexible(ApiKey.METADATA, version)
        parts = [_SHORT.pack(code), _name(flexible, name)]
        if version >= FIRST_WITH_IDS:
            parts.append(topic_id)
        if version >= 1:
            parts.append(b"\x01" if is_internal else b"\x00")
        parts.append(_count(flexible, len(partitions)))
        parts.extend(partitions)
        if version >= 8:
            parts.append(_INT.pack(operations))
        if flexible:
            parts.append(b"\x00")
        return b"".join(parts)


def _unknown(name: str | None) -> ErrorCode:
    """Why nobody is told of this topic; what can name none ends a client that waits for it (199)."""
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    can_be = can_name_a_topic(name)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if can_be else ErrorCode.INVALID_TOPIC_EXCEPTION


def _name(flexible: bool, name: str | None) -> bytes:
    if name is None:
        return b"\x00" if flexible else _SHORT.pack(-1)
    encoded = name.encode()
    return (uvarint(len(encoded) + 1) if flexible else _SHORT.pack(len(encoded))) + encoded


def _count(flexible: bool, elements: int) -> bytes:
    return uvarint(elements + 1) if flexible else _INT.pack(elements)


def _partitions(
    version: int, live: Mapping[int, BrokerView], partitions: Sequence[PartitionView]
) -> list[bytes]:
    """The partitions of one topic; thousands of them share a few sets of replicas."""
    sets: dict[tuple[tuple[int, ...], ...], bytes] = {}
    encoded = []
    for index, known in enumerate(partitions):
        told = known.replicas, known.in_sync, known.failed
        replicas = sets.get(told)
        if replicas is None:
            replicas = sets[told] = _replicas(version, live, known)
        leads = known.leader in live
        error_code = ErrorCode.NONE if leads else ErrorCode.LEADER_NOT_AVAILABLE
        leader = known.leader if leads else NOBODY
        if version >= 7:
            head = _PARTITION_WITH_EPOCH.pack(error_code, index, leader, known.leader_epoch)
        else:
            head = _PARTITION.pack(error_code, index, leader)
        encoded.append(head + replicas)
    return encoded


def _replicas(version: int, live: Mapping[int, BrokerView], known: PartitionView) -> bytes:
    """Who holds a partition, who of them is in sync, who is away or cannot use its log; and no tags."""
    flexible = is_flexible(ApiKey.METADATA, version)
    offline = tuple(one for one in known.replicas if one not in live or one in known.failed)
    parts = []
    for ids in (known.replicas, known.in_sync, offline)[: 3 if version >= 5 else 2]:
        parts.append(_count(flexible, len(ids)) + struct.pack(f">{len(ids)}i", *ids))
    return b"".join(parts) + (b"\x00" if flexible else b"")
