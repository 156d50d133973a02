"""This room makes what members and brokers say over a websocket, spoils it, and frames it."""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final
from uuid import UUID

from muster.messages import codec
from muster.messages.link.from_broker import (
    AllocateProducerIds,
    AlterPartition,
    BrokerHello,
    BrokerPing,
    CreateTopics,
    FromBroker,
    HighWatermark,
    IsrProposal,
    LookForCaller,
    NewTopic,
    UnusableLogs,
)
from muster.messages.member import (
    ClusterMetadataRequest,
    CommitOffsetsRequest,
    FromMember,
    LeaveRequest,
    PartitionOffset,
    PingResponse,
    RegisterConsumerRequest,
    StartFetcherResponse,
    StopFetcherResponse,
    TopicCount,
    TopicOffsets,
)
from tests.fuzz import mutations

ORDERS: Final = UUID(int=1)
TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9


def member_message(dice: Random, key: str, name: str, token: str) -> bytes:
    """Any message of a member, as JSON."""
    info = tuple(
        TopicOffsets(
            dice.choice(("orders", "orders", "nowhere")),
            dice.choice((ORDERS, UUID(int=9))),
            tuple(
                PartitionOffset(number, dice.choice((-1, 0, 5, 2**63 - 1)), dice.choice((0, 1, 2**53 - 1)))
                for number in range(dice.randrange(4))
            ),
        )
        for _ in range(dice.randrange(3))
    )
    key_of: dict[str, Any] = {
        "consumer_id": name,
        "generation": dice.choice((0, 1, 2)),
        "version": dice.choice((1, 2, 3)),
    }
    topic = TopicCount(dice.choice(("orders", "ord.*", "clicks")), is_pattern=dice.random() < 0.3)
    messages: Sequence[FromMember] = (
        ClusterMetadataRequest(correlation_id=1, group_id=key, client_id="eve"),
        RegisterConsumerRequest(
            correlation_id=2,
            group_id=key,
            consumer_id=name,
            token=token,
            topic_count=(topic,),
            session_timeout_ms=9_000,
            auto_commit=dice.random() < 0.5,
            ephemeral=dice.random() < 0.5,
            generation=dice.choice((0, 1, 2**53 - 1)),
        ),
        PingResponse(consumer_id=name, number=dice.randrange(3), offset_info=info),
        StopFetcherResponse(**key_of, offset_info=info),
        StartFetcherResponse(**key_of),
        CommitOffsetsRequest(correlation_id=3, consumer_id=name, offset_info=info, client_id="eve"),
        LeaveRequest(correlation_id=4, consumer_id=name, reason="enough"),
    )
    return codec.encode(dice.choice(messages))


def broker_message(dice: Random) -> bytes:
    """Any message of broker 1, as JSON."""
    partition = (dice.choice((ORDERS, UUID(int=9))), dice.choice((0, 1)))
    proposal = IsrProposal(
        topic_id=partition[0],
        partition=partition[1],
        base_version=dice.choice((0, 5, 2**62)),
        isr=dice.choice(((1,), (1, 2), (2,), (), (7, 7), (1, 2, 3))),
        broker_epochs=dice.choice(({}, {2: 1}, {2: 2**62}, {-1: -1})),
    )
    assignments: Sequence[dict[int, tuple[int, ...]]] = ({}, {0: (1, 2)}, {0: ()}, {3: (9,)}, {-1: (1, 1)})
    configs: Sequence[dict[str, str | None]] = ({}, {"retention.ms": "1"}, {"nonsense": None})
    topic = NewTopic(
        name=dice.choice(("clicks", "orders", "a b", "", "..")),
        partition_count=dice.choice((-1, 0, 1, 2**31)),
        replication_factor=dice.choice((-1, 0, 2, 32_767)),
        assignments=dice.choice(assignments),
        configs=dice.choice(configs),
    )
    messages: Sequence[FromBroker] = (
        BrokerHello(broker_id=1, incarnation="a", endpoints={"client": "127.0.0.1:1"}),
        BrokerPing(
            number=dice.randrange(3),
            metadata_version=dice.choice((0, 5, 2**62)),
            high_watermarks=(HighWatermark(ORDERS, dice.choice((0, 1, -1)), dice.choice((0, -1, 2**62))),),
        ),
        AlterPartition(proposals=(proposal,) * dice.randrange(3)),
        UnusableLogs(failed=(partition,) * dice.randrange(2), usable=(partition,) * dice.randrange(2)),
        CreateTopics(correlation_id=1, topics=(topic,) * dice.randrange(3), timeout_ms=dice.choice((0, 10))),
        AllocateProducerIds(correlation_id=2),
        LookForCaller(
            number=dice.randrange(3),
            name=dice.choice(("ann", "mst_0a0b0c0d", "", "\0", "x" * 20_000)),
            peer=dice.choice(("127.0.0.1", "::1", "no address")),
        ),
    )
    return codec.encode(dice.choice(messages))


# --- JSON --------------------------------------------------------------------------------------------------


def _nested(dice: Random) -> str:
    depth = dice.choice((10, 900, 5_000, 30_000))
    opened, closed = dice.choice((("[", "]"), ('{"a":', "}"), ('[{"topic":', "}]")))
    whole = dice.random() < 0.5
    return opened * depth + "0" + (closed * depth if whole else "")


_VALUES: Sequence[Callable[[Random], str]] = (
    lambda dice: dice.choice(("null", "true", "[]", "{}", '""', "0", "-1", "NaN", "Infinity", "1.5", "-0")),
    lambda dice: str(dice.choice((2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**400))),
    lambda dice: dice.choice(("1e5", "1e400", "1E-400", "0x10", "01", "1.", "+1", "9" * 5_000)),
    lambda dice: json.dumps("x" * dice.choice((249, 250, 1_025, 20_000))),
    lambda dice: dice.choice(
        ('"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"', '"\\x"', '"\x01"', '"\\u12"', '"')
    ),
    lambda dice: json.dumps([["orders"] * 3] * dice.choice((1, 50, 1_200))),
    lambda dice: json.dumps([[n, 0, 0] for n in range(dice.choice((1, 40, 1_500)))]),
    _nested,
)


def spoilt_json(dice: Random, text: bytes, other: mutations.Other) -> bytes:
    """As it is, spoilt as bytes, or another value, name or member in it."""
    kind = dice.random()
    if kind < 0.2:
        return text
    if kind < 0.45:
        return mutations.spoilt(dice, text, other)
    if kind < 0.55:
        return dice.choice(_VALUES)(dice).encode("utf-8", "surrogatepass")
    fields = list(json.loads(text).items())
    place = dice.randrange(len(fields))
    members = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in fields]
    match dice.randrange(4):
        case 0:
            members[place] = f"{json.dumps(fields[place][0])}:{dice.choice(_VALUES)(dice)}"
        case 1:
            del members[place]
        case 2:
            members *= dice.choice((2, 2, 50))
        case 3:
            members.insert(place, f"{dice.choice(_VALUES)(dice)}:{dice.choice(_VALUES)(dice)}")
    return ("{" + ",".join(members) + "}").encode("utf-8", "surrogatepass")


# --- RFC 6455 ----------------------------------------------------------------------------------------------


def websocket_frame(payload: bytes, first: int = 0x80 | TEXT, mask: bytes = b"\x11\x82\x33\xf4") -> bytes:
    """A masked frame; `first` is its first byte: FIN, three reserved bits, the kind."""
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", first, 0x80 | size)
    elif size < 65_536:
        head = struct.pack(">BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", first, 0x80 | 127, size)
    repeated = (mask * (size // 4 + 1))[:size]
    return head + mask + (int.from_bytes(payload) ^ int.from_bytes(repeated)).to_bytes(size)


def badly_framed(dice: Random, text: bytes) -> bytes:
    """The text in a frame, or in frames, that a client should not send so."""
    whole = websocket_frame(text)
    half = len(text) // 2
    match dice.randrange(9):
        case 0:
            return mutations.spoilt(dice, whole, lambda: whole)
        case 1:
            return websocket_frame(text, dice.randrange(256))
        case 2:
            return websocket_frame(text[:half], TEXT) + websocket_frame(text[half:], 0x80)
        case 3:
            return websocket_frame(text[:half], TEXT) + websocket_frame(b"!", 0x80 | PING) + whole
        case 4:
            return websocket_frame(text[:half], TEXT) * dice.choice((1, 3, 200))
        case 5:
            return struct.pack(">BBQ", 0x81, 0xFF, dice.choice((2**63, 2**40, 4 * 2**20, 2**16))) + text
        case 6:
            code = struct.pack(">H", dice.choice((0, 999, 1000, 1005, 1006, 1015, 3000, 65_535)))
            return (
                websocket_frame(dice.choice((b"", b"\x03", code, code + b"\xff\xfe")), 0x80 | CLOSE) + whole
            )
        case 7:
            return websocket_frame(text, 0x80 | BINARY)
        case _:
            return websocket_frame(text[:125], 0x80 | dice.choice((PING, 10))) * dice.choice((1, 50))


def handshake(path: str, headers: Mapping[str, str]) -> bytes:
    """The request that opens a websocket."""
    told = {
        "Host": "node",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
        **headers,
    }
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def frames_of(data: bytearray) -> "list[tuple[int, bytes]]":
    """(kind, payload) of each whole frame of a server, which is taken out of `data`."""
    found: list[tuple[int, Any]] = []
    while len(data) >= 2:
        size, start = data[1], 2
        if size >= 126:
            start = 4 if size == 126 else 10
            size = int.from_bytes(data[2:start])
        if len(data) < start + size:
            break
        found.append((data[0] & 0x0F, bytes(data[start : start + size])))
        del data[: start + size]
    return found
