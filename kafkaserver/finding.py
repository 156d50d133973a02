"""This room answers FindCoordinator from the pushed view, alike at every door (design.md 8a rule 4)."""

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kafkaserver.cluster_answers import NOBODY, MetadataView
from muster.kafkawire.api_table import (
    ApiKey,
    RequestHeader,
    build,
    encode_reply,
    frame_reply,
    response_class,
)
from muster.kafkawire.fields import NO_TAGS, NOT_THROTTLED, count, text
from muster.kernel.error_codes import ErrorCode
from muster.kernel.shards import shard_of

HELD_MAX_MS: Final = 500
"""For so long a question for a coordinator waits where it is not known who it is: a client that hears of
none, or of one that is gone, pauses before it asks again.
"""

GROUP: Final = 0
TRANSACTION: Final = 1
_MANY_KEYS_SINCE: Final = 4

_INT: Final = struct.Struct(">i")
_PORT_AND_ERROR: Final = struct.Struct(">ih")


class Found(NamedTuple):
    """Where the coordinator of one key is, or why nobody can say."""

    error: ErrorCode
    text: str | None = None
    node_id: int = NOBODY
    host: str = ""
    port: int = NOBODY


def find(view: MetadataView, version: int, key_type: int, key: str) -> Found:
    """The node that holds the lease of the shard of group `key` (conformance 153)."""
    if key_type == TRANSACTION:
        # librdkafka, which asks in version 2, ends with the reason for this error alone, and for any other
        # asks for ever; Java, which asks in version 4 and above, tells the reason for any error but this.
        is_final = version < _MANY_KEYS_SINCE
        refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if is_final else ErrorCode.INVALID_REQUEST
        return Found(refusal, "transactions are not served")
    if key_type != GROUP:
        return Found(ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
    owner = view.nodes.get(view.owners.get(shard_of(key), NOBODY))
    if owner is None:
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no node serves this group at present")
    return Found(ErrorCode.NONE, None, owner.broker_id, owner.host, owner.port)


def groups_looked_for(request: Any) -> Sequence[str]:
    """The groups whose owners this FindCoordinator asks for; none if it is about anything else."""
    if getattr(request, "key_type", GROUP) != GROUP:
        return ()
    keys: Sequence[str] | None = getattr(request, "coordinator_keys", None)
    return (request.key,) if keys is None else keys


def answer_find_coordinator(view: MetadataView, header: RequestHeader, request: Any) -> bytes:
    """One answer for the one key up to version 3, one for each key since (conformance 154)."""
    version = header.api_version
    key_type = getattr(request, "key_type", GROUP)
    if version >= _MANY_KEYS_SINCE:
        encoded = _many(view, key_type, request.coordinator_keys)
        return frame_reply(ApiKey.FIND_COORDINATOR, version, header.correlation_id, encoded)
    found = find(view, version, key_type, request.key)
    body = build(
        response_class(ApiKey.FIND_COORDINATOR, version),
        error_code=found.error,
        error_message=found.text,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )
    return encode_reply(ApiKey.FIND_COORDINATOR, version, header.correlation_id, body)


def _many(view: MetadataView, key_type: int, keys: Sequence[str]) -> bytes:
    """The body by hand: ten thousand keys may be asked for at once. Groups of a shard are told the same."""
    tails: dict[int, bytes] = {}
    answers: list[bytes] = []
    for key in keys:
        shard = shard_of(key)
        if shard not in tails:
            tails[shard] = _tail(find(view, _MANY_KEYS_SINCE, key_type, key))
        answers += (text(key, flexible=True), tails[shard])
    return b"".join((NOT_THROTTLED, count(len(keys), flexible=True), *answers, NO_TAGS))


def _tail(found: Found) -> bytes:
    """What stands behind the key."""
    host, why = text(found.host, flexible=True), text(found.text, flexible=True)
    return _INT.pack(found.node_id) + host + _PORT_AND_ERROR.pack(found.port, found.error) + why + NO_TAGS
