"""This room is the one table of the Kafka requests that Muster serves, and reads and writes their bodies.

Every door advertises exactly this table (design.md 8a rule 2; conformance E3). The schemas are kio's.
"""

import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import IntEnum
from functools import cache
from io import BytesIO
from typing import Any, Final, NamedTuple

from kio.index import load_entity_module, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from muster.kafkawire import bounds
from muster.kafkawire.errors import FrameTooLarge, MalformedFrame, UnsupportedRequest
from muster.kafkawire.framing import DEFAULT_LIMIT_BYTES, Buffer
from muster.kafkawire.numbers import read_uvarint
from muster.kernel.tuples import made


class ApiKey(IntEnum):
    """The requests that are served, by Kafka's numbers."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64


@dataclass(frozen=True, slots=True)
class Api:
    """Which versions of one request are advertised, which are understood, and which are flexible.

    `advertised_minimum` differs from `minimum` only for Produce: librdkafka probes version 0 and
    would compress nothing without it, yet nobody may use 0 to 2 (KAFKA-18659).
    """

    key: ApiKey
    advertised_minimum: int
    minimum: int
    maximum: int
    first_flexible: int
    limit_bytes: int = 2 * 1024 * 1024
    """A frame of this request is no larger: what kio reads becomes objects many times its size."""
    limit_elements: int = 50_000
    """All arrays of one request have no more elements together: each is work for the loop."""
    entry_weight: int = 1
    """One of an outermost array counts as so many: to answer it costs more than to read it."""


NEVER_FLEXIBLE: Final = 32_767
"""Above every version."""

SERVED: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        Api(ApiKey.PRODUCE, 0, 3, 12, 9, DEFAULT_LIMIT_BYTES, limit_elements=20_000),
        # Eight microseconds each; of what a leader has, a client that never stops asks all.
        Api(ApiKey.FETCH, 4, 4, 16, 12, limit_elements=20_000),
        Api(ApiKey.LIST_OFFSETS, 1, 1, 9, 6),
        Api(ApiKey.METADATA, 0, 0, 12, 9),
        Api(ApiKey.OFFSET_COMMIT, 2, 2, 9, 8),
        Api(ApiKey.OFFSET_FETCH, 1, 1, 9, 6),
        Api(ApiKey.FIND_COORDINATOR, 0, 0, 6, 3, limit_elements=10_000),
        Api(ApiKey.JOIN_GROUP, 0, 0, 9, 6, limit_elements=1_000),
        Api(ApiKey.HEARTBEAT, 0, 0, 4, 4, limit_bytes=64 * 1024),
        Api(ApiKey.LEAVE_GROUP, 0, 0, 5, 4, limit_elements=20_000),
        # One for each member of the largest group; its bytes are partitions, and what a strategy adds.
        Api(ApiKey.SYNC_GROUP, 0, 0, 5, 4, 16 * 1024 * 1024, limit_elements=20_000),
        # Kafka's tools ask a coordinator for all of its groups at once.
        Api(ApiKey.DESCRIBE_GROUPS, 0, 0, 6, 5, limit_elements=10_000),
        Api(ApiKey.LIST_GROUPS, 0, 0, 5, 3, limit_bytes=64 * 1024, limit_elements=100),
        Api(ApiKey.SASL_HANDSHAKE, 0, 0, 1, NEVER_FLEXIBLE, limit_bytes=1024),
        Api(ApiKey.API_VERSIONS, 0, 0, 4, 3),
        # 50,000 topics, each of them refused, held the loop for 0.8 s; the replicas of one may be as many.
        Api(ApiKey.CREATE_TOPICS, 2, 2, 7, 5, entry_weight=8),
        Api(ApiKey.DELETE_TOPICS, 1, 1, 6, 4, entry_weight=10),
        # 10,000 partitions, each in a topic of its own.
        Api(ApiKey.DELETE_RECORDS, 0, 0, 2, 2, limit_elements=20_000),
        Api(ApiKey.INIT_PRODUCER_ID, 0, 0, 4, 2),
        # As many as one Fetch: when leaders have moved a reader asks about all of them at once.
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 2, 4, 4, limit_elements=20_000),
        # Each is refused: there are no ACLs here.
        Api(ApiKey.DESCRIBE_ACLS, 1, 1, 3, 2, limit_bytes=64 * 1024),
        Api(ApiKey.CREATE_ACLS, 1, 1, 3, 2, limit_bytes=64 * 1024, limit_elements=1_000),
        Api(ApiKey.DELETE_ACLS, 1, 1, 3, 2, limit_bytes=64 * 1024, limit_elements=1_000),
        # Kafka's own topic tool asks about every topic at once.
        Api(ApiKey.DESCRIBE_CONFIGS, 1, 1, 4, 4, limit_elements=20_000),
        Api(ApiKey.ALTER_CONFIGS, 0, 0, 2, 2, entry_weight=8),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 1, 2, 2, limit_elements=20_000),
        Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 1, 4, 2),
        Api(ApiKey.SASL_AUTHENTICATE, 0, 0, 2, 2, limit_bytes=4 * 1024),
        Api(ApiKey.CREATE_PARTITIONS, 0, 0, 3, 2, entry_weight=10),
        Api(ApiKey.DELETE_GROUPS, 0, 0, 2, 2, limit_elements=10_000),
        # 10,000 partitions, each in a topic of its own: 25,000 held the loop for 0.5 s.
        Api(ApiKey.ELECT_LEADERS, 0, 0, 2, 2, limit_elements=30_000, entry_weight=2),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 0, 1, 1, entry_weight=8),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 0, 1, 0),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, 0, 0),
        Api(ApiKey.OFFSET_DELETE, 0, 0, 0, NEVER_FLEXIBLE),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 0, 1, 1, limit_bytes=64 * 1024, limit_elements=100),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 0, 1, 1, limit_elements=20_000, entry_weight=5),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, 0, 0, limit_elements=1_000),
        Api(ApiKey.UPDATE_FEATURES, 0, 0, 2, 0, limit_bytes=64 * 1024, limit_elements=100),
        Api(ApiKey.DESCRIBE_CLUSTER, 0, 0, 2, 0),
        Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, 0, 0, limit_elements=5_000),
        Api(ApiKey.UNREGISTER_BROKER, 0, 0, 0, 0, limit_bytes=64 * 1024),
    )
}

LONGEST_MESSAGE: Final = 1_000
"""Characters of an error message; older versions can say 32,767 bytes."""

_FIXED_HEADER = struct.Struct(">hhih")
_FIXED_HEADER_BYTES: Final = _FIXED_HEADER.size
_NO_TIME: Final = timedelta(0)
_CORRELATION_ID = struct.Struct(">i")
_LENGTH_AND_ID = struct.Struct(">ii")


class RequestHeader(NamedTuple):
    """What stands before a request's body; `body_start` is where the body begins in its frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_start: int


def read_request_header(frame: Buffer) -> RequestHeader:
    """The header of `frame` (without its length prefix).

    Raises MalformedFrame, FrameTooLarge, and UnsupportedRequest for a key or version outside the table; of
    ApiVersions every version passes, because its answer to a version that is too high is an
    answer (conformance E3).
    """
    try:
        key, version, correlation_id, name_bytes = _FIXED_HEADER.unpack_from(frame)
    except struct.error as error:
        raise MalformedFrame("the frame ends inside its header") from error
    api = SERVED.get(key)
    if api is None:
        raise UnsupportedRequest(f"api key {key}")
    size_bytes = len(frame)
    if size_bytes > api.limit_bytes:
        raise FrameTooLarge(f"a {api.key.name} request of {size_bytes} bytes")
    understood = api.minimum <= version <= api.maximum
    if not understood and key != ApiKey.API_VERSIONS:
        raise UnsupportedRequest(f"{api.key.name} version {version}")
    position = _FIXED_HEADER_BYTES
    client_id = None
    if name_bytes >= 0:
        position += name_bytes
        if position > size_bytes:
            raise MalformedFrame("the client id ends behind the frame")
        client_id = str(frame[position - name_bytes : position], "utf-8", "replace")
    if understood and version >= api.first_flexible:
        if position < size_bytes and not frame[position]:
            position += 1
        else:
            position = skip_tags(frame, position)
    return made(RequestHeader, (key, version, correlation_id, client_id, position))


def skip_tags(buffer: Buffer, position: int) -> int:
    """The position behind the tagged fields that begin at `position`.

    Raises MalformedFrame, FrameTooLarge.
    """
    count, position = read_uvarint(buffer, position)
    if count > bounds.MOST_TAGS:
        raise FrameTooLarge(f"{count} tagged fields")
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > len(buffer):
            raise MalformedFrame("a tagged field ends behind the frame")
    return position


def is_flexible(api_key: int, version: int) -> bool:
    """True if this version uses compact lengths and tagged fields."""
    return version >= SERVED[api_key].first_flexible


def reply_prefix(api_key: int, version: int, correlation_id: int) -> bytes:
    """The header of a reply; that of ApiVersions is never flexible (conformance E3)."""
    return _CORRELATION_ID.pack(correlation_id) + _tags_behind_the_id(api_key, version)


@cache
def _tags_behind_the_id(api_key: int, version: int) -> bytes:
    return b"\0" if api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version) else b""


@cache
def request_class(api_key: int, version: int) -> Any:
    """kio's class of a request; its module holds the classes of its parts."""
    return load_request_schema(api_key, version)


@cache
def response_class(api_key: int, version: int) -> Any:
    """kio's class of a reply; its module holds the classes of its parts."""
    return load_response_schema(api_key, version)


@cache
def part(owner: Any, name: str) -> Any:
    """The class `name` of a part of kio's class `owner`: they share a module."""
    return getattr(sys.modules[owner.__module__], name)


@cache
def _field_names(shape: Any) -> frozenset[str]:
    return frozenset(field.name for field in fields(shape))


def build(shape: Any, **values: Any) -> Any:
    """An instance of kio's class `shape`; values that this version does not have are left out.

    A field `error_code` is given as a number, and `error_message` is cut where it says back what is too long.
    Raises TypeError for a value that no version has.
    """
    known = _field_names(shape)
    if not known.issuperset(values):
        misspelt = _not_in_any_version(shape, frozenset(values.keys() - known))
        if misspelt:
            raise TypeError(f"no version of {shape.__name__} has {', '.join(sorted(misspelt))}")
    if "error_code" in values:
        values["error_code"] = ErrorCode(values["error_code"])
    if values.get("error_message"):
        values["error_message"] = shortened(values["error_message"])
    if "throttle_time" in known:
        values.setdefault("throttle_time", _NO_TIME)
    return shape(**{name: value for name, value in values.items() if name in known})


def shortened(text: str) -> str:
    """`text` as an answer may hold it: a name of 32 KiB that is refused is not told back whole."""
    return text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE] + "…"


@cache
def _not_in_any_version(shape: Any, names: frozenset[str]) -> frozenset[str]:
    """Those of `names` that `shape` has in no version that kio knows.

    To load a version takes ten milliseconds, in which the loop of a door stands still. So what is loaded is
    asked first, the newest mostly, which has nearly all; then those that are nearest to `shape`'s own.
    """
    schema, own, kind = shape.__module__.removeprefix("kio.schema.").split(".")
    number = int(own.removeprefix("v"))

    def costs(version: int) -> tuple[bool, int, int]:
        is_loaded = f"kio.schema.{schema}.v{version}.{kind}" in sys.modules
        return not is_loaded, abs(version - number), -version

    for version in sorted(schema_name_map[schema], key=costs):
        is_request = kind == "request"
        module = load_entity_module(
            schema, version, EntityType.request if is_request else EntityType.response
        )
        namesake = getattr(module, shape.__name__, None)
        if namesake is not None:
            names -= _field_names(namesake)
        if not names:
            break
    return names


@cache
def _reader(entity: Any) -> Any:
    return entity_reader(entity)


@cache
def _writer(entity: Any) -> Any:
    return entity_writer(entity)


def read_body(
    entity: Any, frame: Buffer, start: int, most_elements: int = bounds.UNLIMITED, entry_weight: int = 1
) -> Any:
    """The instance of kio's class `entity` that begins at `start`; tagged fields that it lacks are skipped.

    Raises MalformedFrame, FrameTooLarge.
    """
    view = memoryview(frame).toreadonly()
    end, edits = bounds.end_of(entity, view, start, most_elements, entry_weight)
    if edits:
        view = memoryview(bounds.edited(view, start, end, edits))
        start, end = 0, len(view)
    try:
        body, size = _reader(entity)(view, start)
    except Exception as error:
        # kio's native reader raises whatever the broken field met: ValueError, UnicodeDecodeError,
        # its own SerialError; for a door they are all one thing.
        raise MalformedFrame(f"{entity.__name__}: {error!r}") from error
    if start + size != end:
        raise MalformedFrame(f"{entity.__name__} has two ends")
    return body


def read_request(header: RequestHeader, frame: Buffer, most_elements: int | None = None) -> Any:
    """The body of the request that `header` announces, as kio's class; `most_elements` if it may name another
    number of them than the table says.

    Raises MalformedFrame, FrameTooLarge.
    """
    shape = request_class(header.api_key, header.api_version)
    api = SERVED[header.api_key]
    most = api.limit_elements if most_elements is None else most_elements
    return read_body(shape, frame, header.body_start, most, api.entry_weight)


def shapes_loaded() -> Iterator[None]:
    """Load and compile the newest shape of each request, one for each step: what most clients ask in.

    The first of them would hold everybody up for ten milliseconds otherwise. Older ones, six megabytes
    together, are loaded when somebody asks in them.
    """
    for api in SERVED.values():
        # Where no file can be opened now it is loaded when somebody asks in it.
        with suppress(OSError, ImportError):
            bounds.walk_of(request_class(api.key, api.maximum))
            response_class(api.key, api.maximum)
        yield


def encode_body(body: Any) -> bytes:
    """An instance of kio's class, or of a part of one, as its bytes."""
    schema: Any = type(body)
    buffer = BytesIO()
    _writer(schema)(buffer, body)
    return buffer.getvalue()


def encode_reply(api_key: int, version: int, correlation_id: int, body: Any) -> bytes:
    """A whole frame with `body` (an instance of kio's class of this key and version)."""
    return frame_reply(api_key, version, correlation_id, encode_body(body))


def frame_reply(api_key: int, version: int, correlation_id: int, encoded: bytes) -> bytes:
    """A whole frame with a body that is encoded already."""
    tags = _tags_behind_the_id(api_key, version)
    size = _CORRELATION_ID.size + len(tags) + len(encoded)
    return _LENGTH_AND_ID.pack(size, correlation_id) + tags + encoded


def request_head(api_key: int, version: int, correlation_id: int, client_id: str) -> bytes:
    """What stands before a request's body."""
    name = client_id.encode()
    header = _FIXED_HEADER.pack(api_key, version, correlation_id, len(name)) + name
    return header + b"\x00" if is_flexible(api_key, version) else header


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str, body: Any) -> bytes:
    """A whole frame that asks `body` (an instance of kio's request class)."""
    header = request_head(api_key, version, correlation_id, client_id)
    encoded = encode_body(body)
    return _CORRELATION_ID.pack(len(header) + len(encoded)) + header + encoded


def correlation_id_of(frame: Buffer) -> int:
    """The correlation id at the head of a reply frame. Raises MalformedFrame."""
    if len(frame) < _CORRELATION_ID.size:
        raise MalformedFrame("a reply without a correlation id")
    return int(_CORRELATION_ID.unpack_from(frame)[0])


def reply_body_start(api_key: int, version: int, frame: Buffer) -> int:
    """Where the body of a reply frame begins. Raises MalformedFrame."""
    if api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version):
        return skip_tags(frame, _CORRELATION_ID.size)
    return _CORRELATION_ID.size
