"""This room answers CreatePartitions at every door; the controller decides (002 B)."""

from collections import Counter
from datetime import timedelta
from typing import Any

from kafkaserver.admin.asking import Controller, timeout_ms
from kafkaserver.admin.topics import NAMED_TWICE, NOT_AUTHORIZED, results_of
from kafkaserver.callers import caller_of
from kafkaserver.later import Later
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, build, encode_reply, part, read_request, response_class
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
        results = await results_of(
            self._controller,
            tuple(topics[name] for name, refused in asked.items() if refused is None),
            lambda allowed: CreatePartitions(
                topics=allowed,
                timeout_ms=timeout_ms(int(request.timeout.total_seconds() * 1000)),
                validate_only=request.validate_only,
                principal=caller.principal,
            ),
        )
        shape = response_class(header.api_key, header.api_version)
        answers = []
        for name, refused in asked.items():
            result = refused or next(results)
            answers.append(
                build(
                    part(shape, "CreatePartitionsTopicResult"),
                    name=name,
                    error_code=result.error,
                    error_message=result.text or None,
                )
            )
        body = build(shape, throttle_time=timedelta(0), results=tuple(answers))
        reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))


def _grown_topic(topic: Any) -> GrownTopic:
    given = topic.assignments
    return GrownTopic(
        name=topic.name,
        partition_count=topic.count,
        assignments=None if given is None else tuple(tuple(one.broker_ids) for one in given),
    )
