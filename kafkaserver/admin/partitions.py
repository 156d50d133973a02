"""This room answers CreatePartitions at every door; the controller decides (002 B)."""

import asyncio
from collections import Counter
from typing import Any

from kafkaserver.admin.asking import Controller, timeout_ms
from kafkaserver.admin.outcomes import grown_topics
from kafkaserver.admin.topics import NAMED_TWICE, NOT_AUTHORIZED, results_of
from kafkaserver.callers import caller_of
from kafkaserver.later import Later
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, frame_reply, read_request
from muster.messages.link.from_broker import CreatePartitions, GrownTopic


class PartitionHandlers:
    """Serves CreatePartitions."""

    def __init__(self, controller: Controller, later: Later) -> None:
        self._controller = controller
        self._later = later

    def create(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """The controller's answers, in the order of the request, each topic once. Raises MalformedFrame."""
        work = self._create(header, read_request(header, frame), reply)
        self._later.start(reply, work, size_bytes=len(frame))

    async def _create(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        caller = caller_of(reply)
        topics = {topic.name: _grown_topic(topic) for topic in request.topics}
        asked = {
            name: NAMED_TWICE if count > 1 else None if caller.may_create(name) else NOT_AUTHORIZED
            for name, count in Counter(topic.name for topic in request.topics).items()
        }
        loop = asyncio.get_running_loop()
        until = loop.time() + request.timeout.total_seconds()
        results = await results_of(
            self._controller,
            tuple(topics[name] for name, refused in asked.items() if refused is None),
            lambda allowed: CreatePartitions(
                topics=allowed,
                timeout_ms=timeout_ms(int((until - loop.time()) * 1000)),
                validate_only=request.validate_only,
                principal=caller.principal,
            ),
        )
        told = []
        for name, refused in asked.items():
            result = refused or next(results)
            told.append((name, result.error, result.text))
        body = grown_topics(header.api_version, told)
        reply.send(frame_reply(header.api_key, header.api_version, header.correlation_id, body))


def _grown_topic(topic: Any) -> GrownTopic:
    given = topic.assignments
    return GrownTopic(
        name=topic.name,
        partition_count=topic.count,
        assignments=None if given is None else tuple(tuple(one.broker_ids) for one in given),
    )
