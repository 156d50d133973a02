"""This room answers CreateTopics and DeleteTopics at every door; the controller decides (002 B)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import chain, repeat
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from kafkaserver.admin.asking import (
    Controller,
    ControllerUnreachable,
    TooLargeToForward,
    answer_of,
    portions,
    refusal,
    timeout_ms,
)
from kafkaserver.admin.configs import KnownConfigs
from kafkaserver.admin.created_topics import CONFIGS_ARE_TOLD_SINCE, CreatedTopics
from kafkaserver.admin.creation_quota import CreationQuota
from kafkaserver.admin.outcomes import deleted_topics
from kafkaserver.callers import KafkaCaller, caller_of
from kafkaserver.later import Later
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, frame_reply, read_request
from muster.kernel.config_levels import Levels
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.kernel.topic_names import WHAT_CAN_NAME_A_TOPIC, can_name_a_topic
from muster.messages.link.from_broker import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    GrownTopic,
    NamedTopic,
    NewTopic,
)
from muster.messages.link.to_broker import CreatedTopic, CreateTopicsAnswer, TopicResult, TopicResults

_Topic = TypeVar("_Topic", NamedTopic, GrownTopic)

MOST_TOPICS = 1_000
"""Created by one request: all of them are one turn of the controller, which nobody else may wait long for."""

CHANGED_AT_ONCE = 250
"""Topics of one turn where they are deleted, or grow: whoever names thousands waits for several."""

IN_FLIGHT = 3
"""Of these: what has grown is answered when it has leaders, which the next need not wait for."""

_QUOTA_IS_KNOWN_SINCE = 6


class TooManyTopics(Exception):
    """More topics were created through this door than its quota allows for now."""


NOT_AUTHORIZED: Final = TopicResult(
    error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, text="this token may not change this topic"
)
NAMED_TWICE: Final = TopicResult(
    error=ErrorCode.INVALID_REQUEST, text="the topic is named twice in one request"
)
_UNKNOWN_NAME: Final = TopicResult(
    error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text="there is no topic with an empty name"
)
_NAME_OR_ID: Final = TopicResult(
    error=ErrorCode.INVALID_REQUEST, text="a topic is named either by its name or by its id"
)
_UNKNOWN_ID: Final = TopicResult(
    error=ErrorCode.UNKNOWN_TOPIC_ID, text="nobody here knows a topic of this id"
)


class _Named(NamedTuple):
    """How DeleteTopics names a topic; before version 6 by its name alone."""

    name: str | None
    topic_id: UUID | None = None


TopicNames = Callable[[UUID], str | None]
"""The name of a topic by its id, as this door was told."""


class TopicHandlers:
    """Serves CreateTopics and DeleteTopics. `clock` is the monotonic clock."""

    def __init__(
        self,
        controller: Controller,
        later: Later,
        clock: Callable[[], Instant],
        name_of: TopicNames,
        configs: KnownConfigs,
    ) -> None:
        self._controller = controller
        self._configs = configs
        self._later = later
        self._name_of = name_of
        self._clock = clock
        self._creation_quota = CreationQuota(clock())

    # -- CreateTopics

    def create(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """The controller's answers, in the order of the request. Raises MalformedFrame."""
        work = self._create(header, read_request(header, frame), reply)
        self._later.start(reply, work, size_bytes=len(frame))

    async def _create(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        caller = caller_of(reply)
        names = Counter(topic.name for topic in request.topics)
        named_once = [topic for topic in request.topics if names[topic.name] == 1]
        allowed = [topic for topic in named_once if caller.may_create(topic.name)]
        nameless = [topic for topic in allowed if not can_name_a_topic(topic.name)]
        topics = tuple(
            _new_topic(topic)
            for topic in allowed
            if can_name_a_topic(topic.name) and not _assigns_twice(topic)
        )
        answers, throttle_ms = await self._created(header, request, topics, caller.principal)
        unclear = filter(_assigns_twice, allowed)
        answers |= _refused(unclear, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice")
        # A node's request could not be stored for one that holds U+0000, which would spoil the others.
        answers |= _refused(nameless, ErrorCode.INVALID_TOPIC_EXCEPTION, WHAT_CAN_NAME_A_TOPIC)
        refused = (topic for topic in named_once if not caller.may_create(topic.name))
        answers |= _refused(refused, NOT_AUTHORIZED.error, NOT_AUTHORIZED.text)
        twice = "the topic is named twice in one request"
        for name in names:
            answers.setdefault(name, CreatedTopic(name=name, error=ErrorCode.INVALID_REQUEST, text=twice))
        configs = {topic.name: topic.configs for topic in topics}
        version = header.api_version
        told = CreatedTopics(version, await self._levels(version))
        for name in names:
            told.add(answers[name], configs.get(name, {}))
        reply.send(told.frame(header.correlation_id, timedelta(milliseconds=throttle_ms)))

    async def _created(
        self, header: RequestHeader, request: Any, topics: tuple[NewTopic, ...], principal: str
    ) -> tuple[dict[str, CreatedTopic], int]:
        """What the controller says of each topic, or why it was not asked; and when to ask again, in ms."""
        if not topics:
            return {}, 0
        throttle_ms = 0
        try:
            if len(topics) > MOST_TOPICS:
                raise TooLargeToForward(f"one request creates at most {MOST_TOPICS} topics")
            if not request.validate_only:
                throttle_ms = self._creation_quota.take(len(topics), self._clock())
            if throttle_ms:
                raise TooManyTopics(f"topics are created too quickly; ask again in {throttle_ms} ms")
            wish = CreateTopics(
                topics=topics,
                timeout_ms=timeout_ms(int(request.timeout.total_seconds() * 1000)),
                validate_only=request.validate_only,
                principal=principal,
            )
            created = await answer_of(self._controller, wish, CreateTopicsAnswer)
            return {answer.name: answer for answer in created.topics}, 0
        except (ControllerUnreachable, TooLargeToForward) as error:
            return _refused(topics, *refusal(error)), 0
        except TooManyTopics as error:
            is_known = header.api_version >= _QUOTA_IS_KNOWN_SINCE
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_known else ErrorCode.POLICY_VIOLATION
            return _refused(topics, code, str(error)), throttle_ms

    async def _levels(self, version: int) -> Levels:
        """What holds for topics that set nothing."""
        if version < CONFIGS_ARE_TOLD_SINCE:
            return Levels()
        try:
            return (await self._configs.look((), ())).levels
        except ControllerUnreachable:
            # The topics are made; that nobody can be asked what else holds must not hide it.
            return Levels()

    # -- DeleteTopics

    def delete(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """The controller's answers, in the order of the request, each topic once. Raises MalformedFrame."""
        work = self._delete(header, read_request(header, frame), reply)
        self._later.start(reply, work, size_bytes=len(frame))

    async def _delete(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        caller, named = caller_of(reply), _named(request)
        # Here: the controller hears of them in several turns.
        times = Counter(map(self._known_as, named))
        asked = {
            topic: self._may_not_change(caller, topic)
            or (NAMED_TWICE if times[self._known_as(topic)] > 1 else _unclear(topic))
            for topic in named
        }
        results = await results_of(
            self._controller,
            tuple(
                NamedTopic(name=topic.name or "", topic_id=topic.topic_id)
                for topic, refused in asked.items()
                if refused is None
            ),
            lambda allowed: DeleteTopics(topics=allowed, principal=caller.principal),
        )
        told = []
        for topic, refused in asked.items():
            result = refused or next(results)
            topic_id = result.topic_id or topic.topic_id
            told.append((result.name or topic.name, topic_id, result.error, result.text))
        body = deleted_topics(header.api_version, told)
        reply.send(frame_reply(header.api_key, header.api_version, header.correlation_id, body))

    def _known_as(self, topic: _Named) -> object:
        """What two of one request that mean the same topic have in common, as far as this door was told."""
        return topic.name or (topic.topic_id and self._name_of(topic.topic_id)) or topic

    def _may_not_change(self, caller: KafkaCaller, topic: _Named) -> TopicResult | None:
        """Why this topic is not asked for.

        This door may not have heard yet of what was just made: for whoever may change every topic the
        controller is asked. Of others an id that nobody here can name is nobody's to change.
        """
        name = topic.name
        if not name and topic.topic_id is not None:
            name = self._name_of(topic.topic_id)
            if name is None and not caller.topics.is_everything:
                return _UNKNOWN_ID
        return None if caller.may_create(name or "") else NOT_AUTHORIZED


async def results_of(
    controller: Controller,
    topics: tuple[_Topic, ...],
    wish: Callable[[tuple[_Topic, ...]], DeleteTopics | CreatePartitions],
) -> Iterator[TopicResult]:
    """What the controller says of each topic of this wish, or why it was not asked: turn by turn, for as long
    as it answers.
    """
    gate = asyncio.Semaphore(IN_FLIGHT)
    problems: list[ControllerUnreachable | TooLargeToForward] = []

    async def asked(some: tuple[_Topic, ...]) -> Iterable[TopicResult] | None:
        async with gate:
            if not problems:
                try:
                    return (await answer_of(controller, wish(some), TopicResults)).topics
                except (ControllerUnreachable, TooLargeToForward) as problem:
                    problems.append(problem)
            return None

    turns = list(portions(topics, CHANGED_AT_ONCE))
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(asked(some)) for some in turns]
    decided = [task.result() for task in asking]
    failed = TopicResult()
    if problems:
        error, text = refusal(problems[0], is_begun=any(one is not None for one in decided))
        failed = TopicResult(error=error, text=text)
    return chain.from_iterable(
        repeat(failed, len(some)) if one is None else one for some, one in zip(turns, decided, strict=True)
    )


def _named(request: Any) -> list[_Named]:
    if hasattr(request, "topics"):
        return [_Named(one.name, one.topic_id) for one in request.topics]
    return list(map(_Named, request.topic_names))


def _unclear(topic: _Named) -> TopicResult | None:
    """Why the controller, to which an empty name is none, is not asked."""
    if (topic.name is None) == (topic.topic_id is None):
        return _NAME_OR_ID
    return _UNKNOWN_NAME if topic.name == "" else None


def _refused(topics: Iterable[Any], error: ErrorCode, text: str) -> dict[str, CreatedTopic]:
    """Of each of `topics`, as asked by the client or as asked of the controller."""
    return {topic.name: CreatedTopic(name=topic.name, error=error, text=text) for topic in topics}


def _assigns_twice(topic: Any) -> bool:
    """Which of both is meant nobody can tell."""
    return len({given.partition_index for given in topic.assignments}) < len(topic.assignments)


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={given.partition_index: tuple(given.broker_ids) for given in topic.assignments},
        configs={config.name: config.value for config in topic.configs},
    )
