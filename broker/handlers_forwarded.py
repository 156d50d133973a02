"""This room answers what only the controller can decide: topics and their partitions, producer ids.

Any broker takes these requests and passes them on (design.md 8a rules 6 and 8).
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from datetime import timedelta
from itertools import repeat
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

import structlog

from broker.core.creation_quota import CreationQuota
from kafkaserver.callers import KafkaCaller, caller_of
from kafkaserver.producer_ids import NoProducerIds, ProducerIdBlock, ProducerIds
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    build,
    encode_reply,
    part,
    read_request,
    response_class,
)
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import GrownTopic, NamedTopic, NewTopic
from muster.messages.link.to_broker import CreatedTopic, TopicResult

log = structlog.get_logger(__name__)

_Topic = TypeVar("_Topic", NamedTopic, GrownTopic)

MOST_TOPICS = 1_000
"""In one CreateTopics: all of them are one turn of the controller, which nobody else may wait long for."""


_SET_FOR_THE_TOPIC = 1
"""Kafka's config source DYNAMIC_TOPIC_CONFIG."""
_CONFIGS_ARE_TOLD_SINCE = 5
_QUOTA_IS_KNOWN_SINCE = 6
_IDS_SINCE = 6
"""DeleteTopics names topics by their ids as well."""


class ControllerUnreachable(NoProducerIds):
    """No link, or the link broke before the answer: the client is told to try again."""


class TooLargeToForward(Exception):
    """The question would break the language of the link; the client is told so."""


class TooManyTopics(Exception):
    """More topics were created through this broker than its quota allows for now."""


class NotAllowed(Exception):
    """Whoever asks may not create topics of these names."""


class Controller(Protocol):
    """The controller as a broker reaches it, over its link."""

    async def create_topics(
        self, topics: tuple[NewTopic, ...], timeout_ms: int, validate_only: bool, principal: str
    ) -> tuple[CreatedTopic, ...]:
        """One answer for each topic. Raises ControllerUnreachable, TooLargeToForward."""

    async def delete_topics(self, topics: tuple[NamedTopic, ...], principal: str) -> tuple[TopicResult, ...]:
        """One answer for each topic, in order. Raises ControllerUnreachable, TooLargeToForward."""

    async def create_partitions(
        self, topics: tuple[GrownTopic, ...], timeout_ms: int, validate_only: bool, principal: str
    ) -> tuple[TopicResult, ...]:
        """One answer for each topic, in order. Raises ControllerUnreachable, TooLargeToForward."""

    async def producer_ids(self) -> ProducerIdBlock:
        """A block nobody else has. Raises ControllerUnreachable."""


TopicNames = Callable[[UUID], str | None]
"""The name of a topic by its id, as this broker was told."""


class ForwardedHandlers:
    """Serves requests by asking the controller. `clock` is the monotonic clock."""

    def __init__(
        self, controller: Controller, clock: Callable[[], Instant], name_of: TopicNames = lambda _: None
    ) -> None:
        self._controller = controller
        self._name_of = name_of
        self._clock = clock
        self._creation_quota = CreationQuota(clock())
        self.producer_ids = ProducerIds(controller.producer_ids)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], reply: Reply) -> None:
        """Do what has to wait for the controller; a mistake of ours hangs up."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and done.exception() is not None:
                log.error("forwarding_failed", peer=reply.peer, exc_info=done.exception())
                reply.hang_up("our own mistake")

        task.add_done_callback(ended)

    def cancel(self) -> None:
        """Stop waiting for the controller; the connections are about to close."""
        self.producer_ids.cancel()
        for task in self._tasks:
            task.cancel()

    # -- CreateTopics

    def create_topics(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """The controller's answers, in the order of the request. Raises MalformedFrame."""
        request = read_request(header, frame)
        self.start(self._create(header, request, reply), reply)

    async def _create(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        names = Counter(topic.name for topic in request.topics)
        topics = tuple(_new_topic(topic) for topic in request.topics if names[topic.name] == 1)
        timeout_ms = int(request.timeout.total_seconds() * 1000)
        throttle_ms = 0
        caller = caller_of(reply)
        try:
            if not all(caller.may_create(topic.name) for topic in topics):
                raise NotAllowed("this token may not create every one of these topics")
            if len(topics) > MOST_TOPICS:
                raise TooLargeToForward(f"one request creates at most {MOST_TOPICS} topics")
            if not request.validate_only:
                throttle_ms = self._creation_quota.take(len(topics), self._clock())
            if throttle_ms:
                raise TooManyTopics(f"topics are created too quickly; ask again in {throttle_ms} ms")
            created = await self._controller.create_topics(
                topics, timeout_ms, request.validate_only, principal=caller.principal
            )
            answers = {answer.name: answer for answer in created}
        except NotAllowed as error:
            answers = _refused(topics, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, str(error))
        except ControllerUnreachable as error:
            answers = _refused(topics, ErrorCode.NOT_CONTROLLER, str(error))
        except TooLargeToForward as error:
            answers = _refused(topics, ErrorCode.POLICY_VIOLATION, str(error))
        except TooManyTopics as error:
            is_known = header.api_version >= _QUOTA_IS_KNOWN_SINCE
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_known else ErrorCode.POLICY_VIOLATION
            answers = _refused(topics, code, str(error))
        twice = "the topic is named twice in one request"
        for name in names:
            answers.setdefault(name, CreatedTopic(name=name, error=ErrorCode.INVALID_REQUEST, text=twice))
        configs = {topic.name: topic.configs for topic in topics}
        version = header.api_version
        body = build(
            response_class(ApiKey.CREATE_TOPICS, version),
            throttle_time=timedelta(milliseconds=throttle_ms),
            topics=tuple(_created_topic(version, answers[name], configs.get(name, {})) for name in names),
        )
        reply.send(encode_reply(ApiKey.CREATE_TOPICS, header.api_version, header.correlation_id, body))

    # -- DeleteTopics, CreatePartitions

    def delete_topics(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """The controller's answers, in the order of the request. Raises MalformedFrame."""
        self.start(self._delete(header, read_request(header, frame), reply), reply)

    async def _delete(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        if hasattr(request, "topics"):
            topics = tuple(NamedTopic(name=one.name or "", topic_id=one.topic_id) for one in request.topics)
        else:
            topics = tuple(NamedTopic(name=name) for name in request.topic_names)
        caller = caller_of(reply)
        asked = [self._may_not_change(caller, topic) for topic in topics]
        results = await self._results(
            tuple(topic for topic, refused in zip(topics, asked, strict=True) if refused is None),
            lambda allowed: self._controller.delete_topics(allowed, principal=caller.principal),
        )
        shape = response_class(header.api_key, header.api_version)
        responses = []
        for topic, refused in zip(topics, asked, strict=True):
            result = refused or next(results)
            responses.append(
                build(
                    part(shape, "DeletableTopicResult"),
                    name=(result.name or topic.name) or (None if header.api_version >= _IDS_SINCE else ""),
                    topic_id=result.topic_id or topic.topic_id,
                    error_code=result.error,
                    error_message=result.text or None,
                )
            )
        self._send(header, reply, build(shape, throttle_time=timedelta(0), responses=tuple(responses)))

    def _may_not_change(self, caller: KafkaCaller, topic: NamedTopic) -> TopicResult | None:
        """Why this topic is not asked for; an id that this broker cannot name is nobody's to change here."""
        name = topic.name
        if not name and topic.topic_id is not None:
            name = self._name_of(topic.topic_id) or ""
            if not name:
                return _UNKNOWN_ID
        return None if caller.may_create(name) else _NOT_AUTHORIZED

    def create_partitions(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """The controller's answers, in the order of the request. Raises MalformedFrame."""
        self.start(self._grow(header, read_request(header, frame), reply), reply)

    async def _grow(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        caller = caller_of(reply)
        topics = tuple(_grown_topic(topic) for topic in request.topics)
        asked = [None if caller.may_create(topic.name) else _NOT_AUTHORIZED for topic in topics]
        timeout_ms = int(request.timeout.total_seconds() * 1000)
        results = await self._results(
            tuple(topic for topic, refused in zip(topics, asked, strict=True) if refused is None),
            lambda allowed: self._controller.create_partitions(
                allowed, timeout_ms, request.validate_only, principal=caller.principal
            ),
        )
        shape = response_class(header.api_key, header.api_version)
        answers = []
        for topic, refused in zip(topics, asked, strict=True):
            result = refused or next(results)
            answers.append(
                build(
                    part(shape, "CreatePartitionsTopicResult"),
                    name=topic.name,
                    error_code=result.error,
                    error_message=result.text or None,
                )
            )
        self._send(header, reply, build(shape, throttle_time=timedelta(0), results=tuple(answers)))

    async def _results(
        self,
        topics: tuple[_Topic, ...],
        ask: Callable[[tuple[_Topic, ...]], Awaitable[tuple[TopicResult, ...]]],
    ) -> Iterator[TopicResult]:
        """What the controller says of each, or why it was not asked."""
        if not topics:
            return iter(())
        if len(topics) > MOST_TOPICS:
            text = f"one request names at most {MOST_TOPICS} topics"
            return repeat(TopicResult(error=ErrorCode.POLICY_VIOLATION, text=text))
        try:
            return iter(await ask(topics))
        except ControllerUnreachable as error:
            return repeat(TopicResult(error=ErrorCode.NOT_CONTROLLER, text=str(error)))
        except TooLargeToForward as error:
            return repeat(TopicResult(error=ErrorCode.POLICY_VIOLATION, text=str(error)))

    @staticmethod
    def _send(header: RequestHeader, reply: Reply, body: Any) -> None:
        reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))


_NOT_AUTHORIZED: Final = TopicResult(
    error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, text="this token may not change this topic"
)
_UNKNOWN_ID: Final = TopicResult(
    error=ErrorCode.UNKNOWN_TOPIC_ID, text="this broker knows no topic of this id"
)


def _grown_topic(topic: Any) -> GrownTopic:
    given = topic.assignments
    return GrownTopic(
        name=topic.name,
        partition_count=topic.count,
        assignments=None if given is None else tuple(tuple(one.broker_ids) for one in given),
    )


def _refused(topics: tuple[NewTopic, ...], error: ErrorCode, text: str) -> dict[str, CreatedTopic]:
    return {topic.name: CreatedTopic(name=topic.name, error=error, text=text) for topic in topics}


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={given.partition_index: tuple(given.broker_ids) for given in topic.assignments},
        configs={config.name: config.value for config in topic.configs},
    )


def _created_topic(version: int, answer: CreatedTopic, configs: Mapping[str, str | None]) -> Any:
    """`configs`: what the request set, told of a topic that was made; null would break Java's client."""
    shape = response_class(ApiKey.CREATE_TOPICS, version)
    told: tuple[Any, ...] = ()
    if answer.error is ErrorCode.NONE and version >= _CONFIGS_ARE_TOLD_SINCE:
        config = part(shape, "CreatableTopicConfigs")
        told = tuple(
            config(
                name=name,
                value=value,
                read_only=False,
                config_source=_SET_FOR_THE_TOPIC,
                is_sensitive=False,
            )
            for name, value in configs.items()
        )
    return build(
        part(shape, "CreatableTopicResult"),
        name=answer.name,
        topic_id=answer.topic_id,
        error_code=answer.error,
        error_message=answer.text or None,
        num_partitions=answer.partition_count,
        replication_factor=answer.replication_factor,
        configs=told,
    )
