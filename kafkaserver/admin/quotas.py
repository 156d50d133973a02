"""This room answers what Kafka's tools ask about quotas of clients; the controller decides (KIP-546)."""

import math
from collections import Counter
from typing import Any, Final

from kafkaserver.admin.asking import (
    Controller,
    ControllerUnreachable,
    TooLargeToForward,
    answer_of,
    refusal,
)
from kafkaserver.callers import VIEW, caller_of
from kafkaserver.later import Later
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, build, encode_reply, part, read_request, response_class
from muster.kernel.client_quotas import CLIENT_ID, CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, USER
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.quotas import (
    AlterClientQuotas,
    ClientQuotas,
    DescribeClientQuotas,
    QuotaAlteration,
    QuotaFilter,
    QuotaOperation,
    QuotaResult,
    QuotaResults,
    QuotaRow,
)

NOT_FOUND_HERE: Final = (
    "users here prove themselves by tokens (manage.py create_token), which no client lists"
)

_NOT_FOUND: Final = {"error_code": ErrorCode.RESOURCE_NOT_FOUND, "error_message": NOT_FOUND_HERE}
_TWICE: Final = {
    "error_code": ErrorCode.DUPLICATE_RESOURCE,
    "error_message": "the request names this user twice",
}


class QuotaHandlers:
    """Serves DescribeClientQuotas, AlterClientQuotas; DescribeUserScramCredentials, which names nobody."""

    def __init__(self, controller: Controller, later: Later) -> None:
        self._controller = controller
        self._later = later

    # -- DescribeClientQuotas

    def describe(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """The quotas of the entities that the filters name. Raises MalformedFrame."""
        work = self._describe(header, read_request(header, frame), reply)
        self._later.start(reply, work, size_bytes=len(frame))

    async def _describe(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        filters = tuple(QuotaFilter(one.entity_type, one.match_type, one.match) for one in request.components)
        try:
            caller = caller_of(reply)
            if caller.may(VIEW) and caller.is_unbounded:
                wish = DescribeClientQuotas(filters=filters, strict=request.strict)
                answer = await answer_of(self._controller, wish, ClientQuotas)
            else:
                text = "this token may not see the quotas of others"
                answer = _no_quotas(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text)
        except (ControllerUnreachable, TooLargeToForward) as problem:
            answer = _no_quotas(*refusal(problem))
        shape = response_class(header.api_key, header.api_version)
        is_told = answer.error is ErrorCode.NONE
        body = build(
            shape,
            error_code=answer.error,
            error_message=answer.text or None,
            entries=tuple(_entry(shape, row) for row in answer.quotas) if is_told else None,
        )
        reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))

    # -- AlterClientQuotas

    def alter(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """What became of each alteration, in the order of the request. Raises MalformedFrame."""
        work = self._alter(header, read_request(header, frame), reply)
        self._later.start(reply, work, size_bytes=len(frame))

    async def _alter(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        caller = caller_of(reply)
        alterations = tuple(map(_alteration, request.entries))
        if not caller.may_operate_the_cluster:
            code, text = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "this token may not set quotas"
            results = tuple(QuotaResult(one.entity, code, text) for one in alterations)
        else:
            results = await self._altered(
                AlterClientQuotas(
                    alterations=alterations, validate_only=request.validate_only, principal=caller.principal
                )
            )
        shape = response_class(header.api_key, header.api_version)
        named = part(shape, "EntityData")
        body = build(
            shape,
            entries=tuple(
                build(
                    part(shape, "EntryData"),
                    error_code=one.error,
                    error_message=one.text or None,
                    entity=tuple(named(entity_type=kind, entity_name=name) for kind, name in one.entity),
                )
                for one in results
            ),
        )
        reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))

    async def _altered(self, wish: AlterClientQuotas) -> tuple[QuotaResult, ...]:
        if not wish.alterations:
            return ()
        try:
            return (await answer_of(self._controller, wish, QuotaResults)).results
        except (ControllerUnreachable, TooLargeToForward) as problem:
            code, text = refusal(problem)
            return tuple(QuotaResult(one.entity, code, text) for one in wish.alterations)

    # -- DescribeUserScramCredentials

    def describe_credentials(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """None: Kafka's tools ask for them beside the quotas of users. Raises MalformedFrame."""
        request = read_request(header, frame)
        shape = response_class(header.api_key, header.api_version)
        asked = Counter(one.name for one in request.users or ())
        result = part(shape, "DescribeUserScramCredentialsResult")
        body = build(
            shape,
            error_code=ErrorCode.NONE,
            error_message=None,
            results=tuple(
                build(result, user=name, credential_infos=(), **(_NOT_FOUND if times == 1 else _TWICE))
                for name, times in asked.items()
            ),
        )
        reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))


def _no_quotas(error: ErrorCode, text: str) -> ClientQuotas:
    return ClientQuotas(correlation_id=0, error=error, text=text)


def _alteration(entry: Any) -> QuotaAlteration:
    return QuotaAlteration(
        tuple((one.entity_type, one.entity_name) for one in entry.entity),
        tuple(QuotaOperation(one.key, None if one.remove else _number(one.value)) for one in entry.ops),
    )


def _number(value: float) -> float:
    """What is no number has no form on our wires, where it would be nothing, and nothing is removal."""
    return value if math.isfinite(value) else -1.0


def _entry(shape: Any, row: QuotaRow) -> Any:
    """One quota by Kafka's words; the default of a type has no name there."""
    named, valued = part(shape, "EntityData"), part(shape, "ValueData")
    whom = ((USER, row.user), (CLIENT_ID, row.client_id))
    rates = ((PRODUCER_BYTE_RATE, row.producer_byte_rate), (CONSUMER_BYTE_RATE, row.consumer_byte_rate))
    return build(
        part(shape, "EntryData"),
        entity=tuple(
            named(entity_type=kind, entity_name=name or None) for kind, name in whom if name is not None
        ),
        values=tuple(valued(key=key, value=float(rate)) for key, rate in rates if rate is not None),
    )
