"""This room refuses what Kafka's tools ask of ACLs, and says who decides here who may do what: tokens do."""

from typing import Any, Final

from kafkaserver.replies import Handler, Reply
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

THERE_ARE_NONE: Final = "there are no ACLs here: tokens say who may do what (manage.py create_token)"
_REFUSED: Final[dict[str, Any]] = {
    "error_code": ErrorCode.SECURITY_DISABLED,
    "error_message": THERE_ARE_NONE,
}
"""What Kafka answers that has no authorizer."""


def describe_acls(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    """Refused as a whole. Raises MalformedFrame."""
    read_request(header, frame)
    _answer(header, reply, resources=(), **_REFUSED)


def create_acls(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    """Each is refused. Raises MalformedFrame."""
    asked = read_request(header, frame).creations
    refused = build(_part(header, "AclCreationResult"), **_REFUSED)
    _answer(header, reply, results=(refused,) * len(asked))


def delete_acls(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    """Each is refused. Raises MalformedFrame."""
    asked = read_request(header, frame).filters
    refused = build(_part(header, "DeleteAclsFilterResult"), matching_acls=(), **_REFUSED)
    _answer(header, reply, filter_results=(refused,) * len(asked))


def _part(header: RequestHeader, name: str) -> Any:
    return part(response_class(header.api_key, header.api_version), name)


def _answer(header: RequestHeader, reply: Reply, **fields: Any) -> None:
    body = build(response_class(header.api_key, header.api_version), **fields)
    reply.send(encode_reply(header.api_key, header.api_version, header.correlation_id, body))


ACL_REQUESTS: Final[dict[int, Handler]] = {
    ApiKey.DESCRIBE_ACLS: describe_acls,
    ApiKey.CREATE_ACLS: create_acls,
    ApiKey.DELETE_ACLS: delete_acls,
}
