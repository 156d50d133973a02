"""This room answers FindCoordinator from the pushed view, alike at every door (design.md 8a rule 4)."""

from typing import Any, Final, NamedTuple

from kafkaserver.cluster_answers import NOBODY, MetadataView
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
from muster.kernel.shards import shard_of

GROUP: Final = 0
TRANSACTION: Final = 1
_MANY_KEYS_SINCE: Final = 4


class Found(NamedTuple):
    """Where the coordinator of one key is, or why nobody can say."""

    error: ErrorCode
    text: str | None = None
    node_id: int = NOBODY
    host: str = ""
    port: int = NOBODY


def find(view: MetadataView, key_type: int, key: str) -> Found:
    """The node that holds the lease of the shard of group `key` (conformance 153)."""
    if key_type == TRANSACTION:
        return Found(ErrorCode.INVALID_REQUEST, "transactions are not served")
    if key_type != GROUP:
        return Found(ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
    owner = view.nodes.get(view.owners.get(shard_of(key), NOBODY))
    if owner is None:
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no node serves this group at present")
    return Found(ErrorCode.NONE, None, owner.broker_id, owner.host, owner.port)


def answer_find_coordinator(view: MetadataView, header: RequestHeader, frame: memoryview) -> bytes:
    """One answer for the one key up to version 3, one for each key since (conformance 154).

    Raises MalformedFrame, FrameTooLarge.
    """
    request = read_request(header, frame)
    version = header.api_version
    shape = response_class(ApiKey.FIND_COORDINATOR, version)
    key_type = getattr(request, "key_type", GROUP)
    if version >= _MANY_KEYS_SINCE:
        coordinator = part(shape, "Coordinator")
        body = build(
            shape,
            coordinators=tuple(
                build(coordinator, key=key, **_told(find(view, key_type, key)))
                for key in request.coordinator_keys
            ),
        )
    else:
        body = build(shape, **_told(find(view, key_type, request.key)))
    return encode_reply(ApiKey.FIND_COORDINATOR, version, header.correlation_id, body)


def _told(found: Found) -> dict[str, Any]:
    return {
        "error_code": found.error,
        "error_message": found.text,
        "node_id": found.node_id,
        "host": found.host,
        "port": found.port,
    }
