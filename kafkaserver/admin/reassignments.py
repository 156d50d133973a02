"""This room answers what Kafka's tools ask about reassignments; the controller decides (002 E)."""

import asyncio
import struct
from collections.abc import Iterable
from datetime import timedelta
from itertools import repeat
from typing import Any, Final

from kafkaserver.admin.asking import (
    Controller,
    ControllerUnreachable,
    TooLargeToForward,
    answer_of,
    refusal,
)
from kafkaserver.admin.outcomes import Outcome, worded_outcomes
from kafkaserver.callers import VIEW, caller_of
from kafkaserver.later import Later
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import (
    RequestHeader,
    build,
    encode_reply,
    frame_reply,
    is_flexible,
    part,
    read_request,
    response_class,
)
from muster.kafkawire.errors import FrameTooLarge
from muster.kafkawire.fields import NO_TAGS, NOT_THROTTLED, text
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import AlterReassignments, ListReassignments, WantedReplicas
from muster.messages.link.to_broker import (
    OngoingReassignment,
    OngoingReassignments,
    ReassignmentResult,
    ReassignmentResults,
)

MOST_PARTITIONS: Final = 10_000
"""In one request; the controller does a slice of them a turn."""

READ_PARTITIONS: Final = 12_500
"""Who names more is not answered one by one: 50,000 refusals held the loop for a third of a second."""

_ERROR: Final = struct.Struct(">h")
_FACTOR_SINCE: Final = 1
"""The version that says again whether the replication factor may change."""


class ReassignmentHandlers:
    """Serves AlterPartitionReassignments and ListPartitionReassignments."""

    def __init__(self, controller: Controller, later: Later) -> None:
        self._controller = controller
        self._later = later

    def alter(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """The controller's answers, in the order of the request. Raises MalformedFrame, FrameTooLarge."""
        request = read_request(header, frame)
        if (named := sum(len(topic.partitions) for topic in request.topics)) > READ_PARTITIONS:
            raise FrameTooLarge(f"{named} partitions; one request moves at most {MOST_PARTITIONS}")
        self._later.start(reply, self._alter(header, request, reply), named, len(frame))

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
        wish = AlterReassignments(
            partitions=allowed, may_change_factor=may_change_factor, principal=caller.principal
        )
        # Ten thousand are read, asked and answered in a tenth of a second: the loop is let go in between.
        await asyncio.sleep(0)
        results = iter(await self._results(wish))
        await asyncio.sleep(0)
        answers = (next(results) if is_allowed else _NOT_AUTHORIZED for is_allowed in may)
        told = [
            (topic.name, [_outcome(one.partition_index, next(answers)) for one in topic.partitions])
            for topic in request.topics
        ]
        reply.send(_answered(header, told, may_change_factor=may_change_factor))

    async def _results(self, wish: AlterReassignments) -> Iterable[ReassignmentResult]:
        """What the controller says of each, or why it was not asked."""
        if not wish.partitions:
            return ()
        if len(wish.partitions) > MOST_PARTITIONS:
            return repeat(_refused(ErrorCode.POLICY_VIOLATION, f"at most {MOST_PARTITIONS} at a time"))
        try:
            return (await answer_of(self._controller, wish, ReassignmentResults)).results
        except (ControllerUnreachable, TooLargeToForward) as problem:
            return repeat(_refused(*refusal(problem)))

    def list(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """What is asked for or under way of the topics that the caller may see. Raises MalformedFrame."""
        work = self._list(header, read_request(header, frame), reply)
        self._later.start(reply, work, size_bytes=len(frame))

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
                wish = ListReassignments(partitions=wanted)
                ongoing = (await answer_of(self._controller, wish, OngoingReassignments)).ongoing
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


def _outcome(partition: int, result: ReassignmentResult) -> Outcome:
    return partition, result.error, result.text


def _answered(
    header: RequestHeader, told: list[tuple[str, list[Outcome]]], *, may_change_factor: bool
) -> bytes:
    """The frame."""
    version = header.api_version
    flexible = is_flexible(header.api_key, version)
    body = b"".join(
        (
            NOT_THROTTLED,
            bytes((may_change_factor,)) if version >= _FACTOR_SINCE else b"",
            _ERROR.pack(ErrorCode.NONE),
            text(None, flexible),
            worded_outcomes(told, flexible),
            NO_TAGS if flexible else b"",
        )
    )
    return frame_reply(header.api_key, version, header.correlation_id, body)
