"""This room answers ElectLeaders at every door; the controller decides (conformance 208, 209)."""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafkaserver.admin.asking import (
    Controller,
    ControllerUnreachable,
    TooLargeToForward,
    answer_of,
    refusal,
)
from kafkaserver.admin.outcomes import Outcome, worded_outcomes
from kafkaserver.callers import KafkaCaller, caller_of
from kafkaserver.later import Later
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, frame_reply, is_flexible, read_request
from muster.kafkawire.fields import NO_TAGS, NOT_THROTTLED
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import ElectLeaders
from muster.messages.link.to_broker import ElectionResult, ElectionResults

PREFERRED: Final = 0
UNCLEAN: Final = 1

_ERROR: Final = struct.Struct(">h")
_ERROR_SINCE: Final = 1
"""The version that has a place for an error of the whole answer."""

_NOT_AUTHORIZED: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "this token may not change this topic")

_Results = Mapping[tuple[str, int], tuple[ErrorCode, str]]


class ElectionHandlers:
    """Serves ElectLeaders."""

    def __init__(self, controller: Controller, later: Later) -> None:
        self._controller = controller
        self._later = later

    def elect(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """The controller's answers, in the order of the request. Raises MalformedFrame."""
        work = self._elect(header, read_request(header, frame), reply)
        self._later.start(reply, work, size_bytes=len(frame))

    async def _elect(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        caller = caller_of(reply)
        election = getattr(request, "election_type", PREFERRED)
        error = ErrorCode.NONE
        results: _Results = {}
        wanted = _wanted(request)
        if election not in (PREFERRED, UNCLEAN):
            text = f"there is no election of type {election}; 0 is preferred, 1 is unclean"
            results = _alike(wanted or (), (ErrorCode.INVALID_REQUEST, text))
            error = ErrorCode.INVALID_REQUEST
        elif wanted is None and not caller.may_operate_the_cluster:
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        else:
            error, results = await self._results(caller, wanted, election == UNCLEAN)
        reply.send(_answered(header, error, results))

    async def _results(
        self, caller: KafkaCaller, wanted: tuple[tuple[str, int], ...] | None, unclean: bool
    ) -> tuple[ErrorCode, _Results]:
        """What the controller says of each, or why it was not asked; the error is for all of them."""
        refused = {one: _NOT_AUTHORIZED for one in wanted or () if not caller.may_create(one[0])}
        allowed = None if wanted is None else tuple(one for one in wanted if one not in refused)
        if allowed is not None and not allowed:
            return ErrorCode.NONE, refused
        wish = ElectLeaders(correlation_id=0, partitions=allowed, unclean=unclean, principal=caller.principal)
        try:
            elected = (await answer_of(self._controller, wish, ElectionResults)).results
        except (ControllerUnreachable, TooLargeToForward) as problem:
            code, text = refusal(problem)
            return code, {**refused, **_alike(allowed or (), (code, text))}
        found = {(one.topic, one.partition): _said(one) for one in elected}
        everything = {**refused, **found}
        return ErrorCode.NONE, everything if wanted is None else {one: everything[one] for one in wanted}


def _wanted(request: Any) -> tuple[tuple[str, int], ...] | None:
    """Each partition once, in the order of the request; None: all."""
    if request.topic_partitions is None:
        return None
    named = ((topic.topic, number) for topic in request.topic_partitions for number in topic.partitions)
    return tuple(dict.fromkeys(named))


def _alike(partitions: Iterable[tuple[str, int]], said: tuple[ErrorCode, str]) -> _Results:
    return dict.fromkeys(partitions, said)


def _said(result: ElectionResult) -> tuple[ErrorCode, str]:
    return result.error, result.text


def _answered(header: RequestHeader, error: ErrorCode, results: _Results) -> bytes:
    """The frame, by topic."""
    by_topic: dict[str, list[Outcome]] = {}
    for (topic, number), (of_one, text) in results.items():
        by_topic.setdefault(topic, []).append((number, of_one, text))
    version = header.api_version
    flexible = is_flexible(header.api_key, version)
    body = b"".join(
        (
            NOT_THROTTLED,
            _ERROR.pack(error) if version >= _ERROR_SINCE else b"",
            worded_outcomes(by_topic.items(), flexible),
            NO_TAGS if flexible else b"",
        )
    )
    return frame_reply(header.api_key, version, header.correlation_id, body)
