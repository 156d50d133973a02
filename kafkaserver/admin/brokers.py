"""This room answers what Kafka's tools want of brokers and features at every door; the controller decides."""

from typing import Any, Final

from kafkaserver.admin.asking import (
    Controller,
    ControllerUnreachable,
    TooLargeToForward,
    answer_of,
    refusal,
)
from kafkaserver.callers import caller_of
from kafkaserver.later import Later
from kafkaserver.replies import Reply
from muster.kafkawire.api_table import RequestHeader, build, encode_reply, read_request, response_class
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.brokers import BrokerResult, UnregisterBroker

NO_FEATURES: Final = (
    "there is no feature to change: brokers and nodes agree on what both understand when they are upgraded"
)

NOT_AUTHORIZED: Final = "this token may not change the cluster"


class BrokerHandlers:
    """Serves UnregisterBroker, and UpdateFeatures, which is refused."""

    def __init__(self, controller: Controller, later: Later) -> None:
        self._controller = controller
        self._later = later

    def unregister(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """A broker that holds nothing leaves the cluster (conformance 160). Raises MalformedFrame."""
        self._later.start(reply, self._unregister(header, read_request(header, frame), reply))

    async def _unregister(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        caller = caller_of(reply)
        wish = UnregisterBroker(broker_id=request.broker_id, principal=caller.principal)
        try:
            if caller.may_operate_the_cluster:
                answer = await answer_of(self._controller, wish, BrokerResult)
                error, text = answer.error, answer.text
            else:
                error, text = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, NOT_AUTHORIZED
        except (ControllerUnreachable, TooLargeToForward) as problem:
            error, text = refusal(problem)
        shape = response_class(header.api_key, header.api_version)
        body = build(shape, error_code=error, error_message=text or None)
        reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))

    def update_features(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """No feature has a level of its own here: none is changed but none. Raises MalformedFrame."""
        request = read_request(header, frame)
        error, text = ErrorCode.NONE, None
        if request.feature_updates:
            error, text = ErrorCode.INVALID_UPDATE_VERSION, NO_FEATURES
        if not caller_of(reply).may_operate_the_cluster:
            error, text = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, NOT_AUTHORIZED
        shape = response_class(header.api_key, header.api_version)
        body = build(shape, error_code=error, error_message=text, results=())
        reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))
