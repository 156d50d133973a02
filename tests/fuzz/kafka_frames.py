"""This room makes whole Kafka requests of any version in the table, out of names that the doors know.

A field is filled by its own name; one in a few is wild: an edge of its type instead of a plausible value.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

from crc32c import crc32c
from kio.schema.errors import ErrorCode

from groups.core.consumer_protocol import assignment, subscription
from muster.kafkawire.api_table import SERVED, ApiKey, encode_request, request_class
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import TOKEN
from tests.unit.kafkawire.made_batches import made_batch, sealed_batch

Version = tuple[ApiKey, int]
VERSIONS: Sequence[Version] = tuple(
    (api.key, version) for api in SERVED.values() for version in range(api.minimum, api.maximum + 1)
)

WILD_ONE_IN = 12
CROWD_ONE_IN = 1_500
MILLISECONDS = ("timedelta_i32", "timedelta_i64")
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32, "timedelta_i64": 40}


@dataclass
class Known:
    """What a stranger may have found out: names that exist, and what the members of a group hold."""

    groups: Sequence[str]
    topics: Sequence[str]
    topic_ids: Sequence[UUID]
    member_ids: list[str] = field(default_factory=lambda: [""])
    generations: list[int] = field(default_factory=lambda: [-1])
    instances: Sequence[str] = ("ben-1", "cleo-1")


def kafka_request(dice: Random, known: Known, version: Version, correlation_id: int) -> bytes:
    """A whole frame, length and all. Nothing in it breaks the schema; what it says may be absurd."""
    shape = request_class(*version)
    return encode_request(*version, correlation_id, "eve", _Maker(dice, known, version[0]).entity(shape))


class _Maker:
    def __init__(self, dice: Random, known: Known, key: ApiKey) -> None:
        self.dice = dice
        self.known = known
        self.key = key
        self.is_crowd = dice.randrange(CROWD_ONE_IN) == 0
        """Whether one of its arrays shall have as many elements as one frame may name."""
        self.many = dice.choice((500, SERVED[key].limit_elements * 9 // 10))

    def entity(self, shape: Any) -> Any:
        made = {}
        for one in fields(shape):
            if one.default is not MISSING and self.dice.random() < 0.3:
                continue
            made[one.name] = self.value(one, one.type)
        return shape(**made)

    def value(self, one: "Field[Any]", annotation: Any) -> Any:
        origin = get_origin(annotation)
        if origin is not None and origin is not tuple:
            if self.dice.random() < 0.25:
                return None
            [annotation] = (kind for kind in get_args(annotation) if kind is not NoneType)
            origin = get_origin(annotation)
        if origin is tuple:
            inner = get_args(annotation)[0]
            if self.is_crowd and self.dice.random() < 0.7:
                self.is_crowd = False
                return tuple(self.one_of_many(one, inner, number) for number in range(self.many))
            return tuple(self.value(one, inner) for _ in range(self.dice.choice((0, 1, 1, 1, 2, 3))))
        if is_dataclass(annotation):
            return self.entity(annotation)
        return self.leaf(one.name, str(one.metadata.get("kafka_type")))

    def one_of_many(self, one: "Field[Any]", annotation: Any, number: int) -> Any:
        """An element that differs from its neighbours, so that nobody counts them as one."""
        made = self.value(one, annotation)
        for name in getattr(made, "__dataclass_fields__", ()):
            value = getattr(made, name)
            if type(value) is str:
                made = replace(made, **{name: f"{value[:8]}{number}"})
            elif type(value) is int and "partition" in name:
                made = replace(made, **{name: number})
        return f"{made[:8]}{number}" if type(made) is str else made

    def leaf(self, name: str, kind: str) -> Any:
        dice = self.dice
        if kind == "bool":
            return dice.random() < 0.5
        if kind == "error_code":
            return ErrorCode.none
        if kind == "uuid":
            return dice.choice(self.known.topic_ids)
        if kind == "float64":
            return dice.choice((0.0, 1.5, float("nan"), float("inf")))
        if kind == "datetime_i64":
            return datetime.fromtimestamp(dice.randrange(2_000_000_000), UTC)
        if kind in ("bytes", "records"):
            return self.bytes_of(name, kind)
        if kind == "string":
            return self.text(name)
        return self.number(name, kind)

    def number(self, name: str, kind: str) -> Any:
        if self.dice.randrange(WILD_ONE_IN) == 0:
            bits = _BITS[kind]
            made = self.dice.choice((-1, 0, 1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 2**15, -2))
            made = max(-(2 ** (bits - 1)), min(made, 2 ** (bits - 1) - 1))
        else:
            made = self.dice.choice(_numbers(self.known).get(name, (0, 1, 2, -1)))
        return timedelta(milliseconds=made) if kind in MILLISECONDS else made

    def text(self, name: str) -> str:
        dice = self.dice
        if dice.randrange(WILD_ONE_IN) == 0:
            return dice.choice(("", "a\0b", "x" * 256, "ä" * 9_000, ".", "..", "\U0001f40d", "a b", "%s{0}"))
        return dice.choice(_texts(self.known).get(name, ("orders", "ann", "")))

    def bytes_of(self, name: str, kind: str) -> bytes:
        dice = self.dice
        if dice.randrange(WILD_ONE_IN) == 0:
            return dice.randbytes(dice.choice((0, 1, 7, 61, 300)))
        if kind == "records":
            return dice.choice(_RECORDS)(dice)
        if name == "assignment":
            return assignment({"orders": [0, 1]})
        if name == "auth_bytes":
            return dice.choice(
                (b"n,,n=ann,r=nonce", f"\0orders-app\0{TOKEN}".encode(), b"c=biws,r=nonce,p=AAAA", b"")
            )
        return subscription(list(self.known.topics))


def _numbers(known: Known) -> dict[str, Sequence[int]]:
    return {
        **_PLAUSIBLE,
        "generation_id": known.generations,
        "generation_id_or_member_epoch": known.generations,
    }


_PLAUSIBLE: dict[str, Sequence[int]] = {
    "acks": (-1, 0, 1),
    "timeout": (0, 10, 100),
    "max_wait": (0, 0, 5, 50),
    "min_bytes": (0, 1, 1_000_000),
    "max_bytes": (0, 1, 1_000_000),
    "partition_max_bytes": (0, 1, 100, 1_000_000),
    "replica_id": (-1, -1, -1, 1, 2),
    "session_timeout": (6_000, 10_000, 30_000),
    "rebalance_timeout": (1_000, 10_000),
    "replication_factor": (-1, 1, 3),
    "num_partitions": (-1, 1, 3),
    "session_epoch": (-1, 0, 1),
    "timestamp": (-1, -2, 0, 1_000, -3),
    "producer_id": (-1, 0, 7),
    "producer_epoch": (-1, 0, 1),
    "key_type": (0, 0, 1),
}


def _texts(known: Known) -> dict[str, Sequence[str]]:
    members = known.member_ids
    return {
        **dict.fromkeys(("group_id", "groups_names", "groups", "key", "coordinator_keys"), known.groups),
        **dict.fromkeys(("name", "topic", "topics"), (*known.topics, "range")),
        "member_id": members,
        "group_instance_id": known.instances,
        "protocol_type": ("consumer", "consumer", "connect"),
        "protocol_name": ("range", "roundrobin"),
        "mechanism": ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "GSSAPI"),
        "states_filter": ("Stable", "Empty", "nonsense"),
        "types_filter": ("classic", "consumer", "Classic"),
        "transactional_id": ("", "a-transaction"),
    }


# --- records: whole, broken, broken behind a right checksum ------------------------------------------------


def _whole(dice: Random) -> bytes:
    producer = dice.choice(((-1, -1, -1), (7, 0, 0), (7, 0, 1), (2**62, 32_767, 2**31 - 1)))
    return bytes(_batch(dice.randrange(4), producer, dice.randrange(4)))


@cache
def _batch(count: int, producer: tuple[int, int, int], compression: int) -> bytes:
    return bytes(made_batch([b"v" * 20] * max(count, 1), producer=producer, compression=compression))


def _two(dice: Random) -> bytes:
    return _whole(dice) + _whole(dice)


def _torn(dice: Random) -> bytes:
    made = _whole(dice)
    return made[: dice.randrange(len(made))]


def _flipped(dice: Random) -> bytes:
    made = bytearray(_whole(dice))
    made[dice.randrange(len(made))] ^= 1 << dice.randrange(8)
    return bytes(made)


def _poisoned(dice: Random) -> bytes:
    """A right checksum around rubbish, in any compression that there is, and in those that there are not."""
    payload = dice.randbytes(dice.choice((0, 5, 40)))
    return bytes(sealed_batch(payload, compression=dice.randrange(8), count=dice.choice((1, 2, 9))))


def _absurd(dice: Random) -> bytes:
    """A right checksum behind a header whose counts and offsets are the edges of their types."""
    made = bytearray(sealed_batch(b"\0" * dice.randrange(30), compression=0))
    for place, layout in dice.sample(_HEADER, 2):
        edge = dice.choice((-1, 0, 2 ** (8 * struct.calcsize(layout) - 1) - 1))
        struct.pack_into(layout, made, place, edge)
    struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    return bytes(made)


_HEADER = ((21, ">h"), (23, ">i"), (27, ">q"), (35, ">q"), (43, ">q"), (51, ">h"), (53, ">i"), (57, ">i"))
"""Where a batch keeps attributes, last offset delta, both times, producer, sequence, count."""

_RECORDS: Sequence[Callable[[Random], bytes]] = (_whole, _whole, _two, _torn, _flipped, _poisoned, _absurd)
