"""This room answers what only the controller can decide: new topics, and blocks of producer ids.

Any broker takes these requests and passes them on (design.md 8a rules 6 and 8).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any, Protocol

import structlog

from broker.core.creation_quota import CreationQuota
from kafkaserver.callers import caller_of
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
from muster.messages.link.from_broker import NewTopic
from muster.messages.link.to_broker import CreatedTopic

log = structlog.get_logger(__name__)

MOST_TOPICS = 1_000
"""In one CreateTopics: all of them are one turn of the controller, which nobody else may wait long for."""


_SET_FOR_THE_TOPIC = 1
"""Kafka's config source DYNAMIC_TOPIC_CONFIG."""
_CONFIGS_ARE_TOLD_SINCE = 5
_QUOTA_IS_KNOWN_SINCE = 6


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

    async def producer_ids(self) -> ProducerIdBlock:
        """A block nobody else has. Raises ControllerUnreachable."""


class ForwardedHandlers:
    """Serves CreateTopics and InitProducerId by asking the controller. `clock` is the monotonic clock."""

    def __init__(self, controller: Controller, clock: Callable[[], Instant]) -> None:
        self._controller = controller
        self._clock = clock
        self._creation_quota = CreationQuota(clock())
        self.producer_ids = ProducerIds(controller.producer_ids)
        self._tasks: set[asyncio.Task[None]] = set()

    def _start(self, work: Coroutine[Any, Any, None], reply: Reply) -> None:
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
        self._start(self._create(header, request, reply), reply)

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
