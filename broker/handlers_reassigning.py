"""This room answers what Kafka's tools ask about reassignments; the controller decides (002 E)."""

from collections.abc import Callable, Coroutine, Iterable
from datetime import timedelta
from itertools import repeat
from typing import Any, Final, Protocol

from broker.handlers_forwarded import ControllerUnreachable, TooLargeToForward
from kafkaserver.callers import VIEW, caller_of
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, build, encode_reply, part, read_request, response_class
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import WantedReplicas
from muster.messages.link.to_broker import OngoingReassignment, ReassignmentResult

MOST_PARTITIONS: Final = 10_000
"""In one request: all of them are one turn of the controller."""

Start = Callable[[Coroutine[Any, Any, None], Reply], None]


class Controller(Protocol):
    """The controller as a broker reaches it; both raise ControllerUnreachable, TooLargeToForward."""

    async def alter_reassignments(
        self, partitions: tuple[WantedReplicas, ...], may_change_factor: bool, principal: str
    ) -> tuple[ReassignmentResult, ...]:
        """One answer for each partition, in order."""

    async def list_reassignments(
        self, partitions: tuple[tuple[str, int], ...] | None
    ) -> tuple[OngoingReassignment, ...]:
        """What is asked for or under way; None: of every partition."""


class ReassignmentHandlers:
    """Serves AlterPartitionReassignments and ListPartitionReassignments; `start` runs what has to wait."""

    def __init__(self, controller: Controller, start: Start) -> None:
        self._controller = controller
        self._start = start

    def alter(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """The controller's answers, in the order of the request. Raises MalformedFrame."""
        self._start(self._alter(header, read_request(header, frame), reply), reply)

    async def _alter(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        caller = caller_of(reply)
        wanted = [
            WantedReplicas(
                topic=topic.name,
                partition=one.partition_index,
                replicas=None if one.replicas is None else tuple(one.replicas),
            )
            for topic in request.topics
            for one in topic.partitions
        ]
        may = [caller.may_create(one.topic) for one in wanted]
        allowed = tuple(one for one, is_allowed in zip(wanted, may, strict=True) if is_allowed)
        may_change_factor = getattr(request, "allow_replication_factor_change", True)
        results = iter(await self._results(allowed, may_change_factor, caller.principal))
        answers = (next(results) if is_allowed else _NOT_AUTHORIZED for is_allowed in may)
        shape = response_class(header.api_key, header.api_version)
        place = part(shape, "ReassignablePartitionResponse")
        body = build(
            shape,
            allow_replication_factor_change=may_change_factor,
            error_code=ErrorCode.NONE,
            error_message=None,
            responses=tuple(
                build(
                    part(shape, "ReassignableTopicResponse"),
                    name=topic.name,
                    partitions=tuple(
                        _answer(place, one.partition_index, next(answers)) for one in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )
        reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))

    async def _results(
        self, allowed: tuple[WantedReplicas, ...], may_change_factor: bool, principal: str
    ) -> Iterable[ReassignmentResult]:
        """What the controller says of each, or why it was not asked."""
        if not allowed:
            return ()
        if len(allowed) > MOST_PARTITIONS:
            return repeat(_refused(ErrorCode.POLICY_VIOLATION, f"at most {MOST_PARTITIONS} at a time"))
        try:
            return await self._controller.alter_reassignments(allowed, may_change_factor, principal)
        except ControllerUnreachable as error:
            return repeat(_refused(ErrorCode.NOT_CONTROLLER, str(error)))
        except TooLargeToForward as error:
            return repeat(_refused(ErrorCode.POLICY_VIOLATION, str(error)))

    def list(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """What is asked for or under way of the topics that the caller may see. Raises MalformedFrame."""
        self._start(self._list(header, read_request(header, frame), reply), reply)

    async def _list(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        caller = caller_of(reply)
        wanted = None
        if request.topics is not None:
            wanted = tuple(
                (topic.name, number) for topic in request.topics for number in topic.partition_indexes
            )
        ongoing: tuple[OngoingReassignment, ...] = ()
        error, text = ErrorCode.NONE, None
        try:
            if caller.may(VIEW):
                ongoing = await self._controller.list_reassignments(wanted)
            else:
                error, text = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "this token may not view the cluster"
        except ControllerUnreachable as unreachable:
            error, text = ErrorCode.NOT_CONTROLLER, str(unreachable)
        except TooLargeToForward as too_large:
            error, text = ErrorCode.INVALID_REQUEST, str(too_large)
        by_topic: dict[str, list[OngoingReassignment]] = {}
        for one in ongoing:
            if caller.may_describe(one.topic):
                by_topic.setdefault(one.topic, []).append(one)
        shape = response_class(header.api_key, header.api_version)
        place = part(shape, "OngoingPartitionReassignment")
        topics = tuple(
            build(
                part(shape, "OngoingTopicReassignment"),
                name=name,
                partitions=tuple(
                    build(
                        place,
                        partition_index=one.partition,
                        replicas=one.replicas,
                        adding_replicas=one.adding,
                        removing_replicas=one.removing,
                    )
                    for one in moving
                ),
            )
            for name, moving in by_topic.items()
        )
        body = build(shape, throttle_time=timedelta(0), error_code=error, error_message=text, topics=topics)
        reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))


def _refused(error: ErrorCode, text: str) -> ReassignmentResult:
    return ReassignmentResult(topic="", partition=-1, error=error, text=text)


_NOT_AUTHORIZED: Final = _refused(
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, "this token may not change this topic"
)


def _answer(shape: Any, partition: int, result: ReassignmentResult) -> Any:
    return build(shape, partition_index=partition, error_code=result.error, error_message=result.text or None)
