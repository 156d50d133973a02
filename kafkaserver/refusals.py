"""This room words, in every version, the refusal of a whole request about groups.

Groups are served by nodes; whoever asks a broker is told to look for the coordinator again (design.md 8a
rule 5). A node uses the same words where it refuses for other reasons.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kafkaserver.replies import Reply
from muster.kafkawire.api_table import (
    SERVED,
    ApiKey,
    RequestHeader,
    build,
    encode_reply,
    part,
    read_request,
    response_class,
)
from muster.kernel.error_codes import ErrorCode

_NOTHING: Final = -1

MOST_ELEMENTS: Final = 5_000
"""Of a request at a broker: 20,000 of OffsetCommit, each of them refused, held its loop for 0.25 s, and
nobody who knows the coordinator asks a broker about one.
"""

Refuse = Callable[[Any, Any, ErrorCode], dict[str, Any]]
"""(kio's class of the answer, the request, why) → the fields of the answer."""


def refused_body(header: RequestHeader, request: Any, error: ErrorCode) -> Any:
    """The answer, kio's class, that refuses all of `request`."""
    shape = response_class(header.api_key, header.api_version)
    return build(shape, **GROUP_REQUESTS[header.api_key](shape, request, error))


def refuse(header: RequestHeader, request: Any, error: ErrorCode) -> bytes:
    """The frame that refuses all of `request`."""
    body = refused_body(header, request, error)
    return encode_reply(header.api_key, header.api_version, header.correlation_id, body)


def refuse_groups(header: RequestHeader, frame: memoryview, reply: Reply) -> None:
    """At the door of a broker: no group is coordinated here, and none is listed (design.md 8a rule 5).

    Raises MalformedFrame, FrameTooLarge.
    """
    request = read_request(header, frame, min(MOST_ELEMENTS, SERVED[header.api_key].limit_elements))
    listed = header.api_key == ApiKey.LIST_GROUPS
    reply.send(refuse(header, request, ErrorCode.NONE if listed else ErrorCode.NOT_COORDINATOR))


def _join(shape: Any, request: Any, error: ErrorCode) -> dict[str, Any]:
    """The member id is echoed; the protocol is null where null exists (conformance 1)."""
    known = "protocol_type" in shape.__dataclass_fields__
    return {
        "error_code": error,
        "generation_id": _NOTHING,
        "protocol_type": None,
        "protocol_name": None if known else "",
        "leader": "",
        "member_id": request.member_id,
        "members": (),
    }


def _sync(_shape: Any, _request: Any, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "protocol_type": None, "protocol_name": None, "assignment": b""}


def _only_the_error(_shape: Any, _request: Any, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error}


def _leave(shape: Any, _request: Any, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error} | ({"members": ()} if "members" in shape.__dataclass_fields__ else {})


def _commit(shape: Any, request: Any, error: ErrorCode) -> dict[str, Any]:
    topic_answer = part(shape, "OffsetCommitResponseTopic")
    answer = part(shape, "OffsetCommitResponsePartition")
    return {
        "topics": tuple(
            build(
                topic_answer,
                name=topic.name,
                partitions=tuple(
                    build(answer, partition_index=asked.partition_index, error_code=error)
                    for asked in topic.partitions
                ),
            )
            for topic in request.topics
        )
    }


def _fetch_offsets(shape: Any, request: Any, error: ErrorCode) -> dict[str, Any]:
    """In each partition in version 1, above them up to 7, by group since 8 (conformance 124)."""
    if "groups" in shape.__dataclass_fields__:
        group = part(shape, "OffsetFetchResponseGroup")
        return {
            "groups": tuple(
                build(group, group_id=asked.group_id, topics=(), error_code=error) for asked in request.groups
            )
        }
    if "error_code" in shape.__dataclass_fields__:
        return {"topics": (), "error_code": error}
    topic_answer = part(shape, "OffsetFetchResponseTopic")
    answer = part(shape, "OffsetFetchResponsePartition")
    return {
        "topics": tuple(
            build(
                topic_answer,
                name=topic.name,
                partitions=tuple(
                    build(
                        answer,
                        partition_index=partition,
                        committed_offset=_NOTHING,
                        metadata="",
                        error_code=error,
                    )
                    for partition in topic.partition_indexes
                ),
            )
            for topic in request.topics
        )
    }


def _delete_offsets(_shape: Any, _request: Any, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "topics": ()}


def _list(_shape: Any, _request: Any, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "groups": ()}


def _describe(shape: Any, request: Any, error: ErrorCode) -> dict[str, Any]:
    group = part(shape, "DescribedGroup")
    return {
        "groups": tuple(
            build(
                group,
                error_code=error,
                group_id=group_id,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=(),
            )
            for group_id in dict.fromkeys(request.groups)
        )
    }


def _delete_groups(shape: Any, request: Any, error: ErrorCode) -> dict[str, Any]:
    result = part(shape, "DeletableGroupResult")
    return {
        "results": tuple(
            build(result, group_id=group_id, error_code=error)
            for group_id in dict.fromkeys(request.groups_names)
        )
    }


GROUP_REQUESTS: Final[Mapping[int, Refuse]] = MappingProxyType(
    {
        ApiKey.OFFSET_COMMIT: _commit,
        ApiKey.OFFSET_FETCH: _fetch_offsets,
        ApiKey.JOIN_GROUP: _join,
        ApiKey.HEARTBEAT: _only_the_error,
        ApiKey.LEAVE_GROUP: _leave,
        ApiKey.SYNC_GROUP: _sync,
        ApiKey.DESCRIBE_GROUPS: _describe,
        ApiKey.LIST_GROUPS: _list,
        ApiKey.DELETE_GROUPS: _delete_groups,
        ApiKey.OFFSET_DELETE: _delete_offsets,
    }
)
