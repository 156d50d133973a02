"""The bytes of Kafka's consumers are read for pages; whatever a member sends instead is nothing."""

import random
import struct

import pytest

from groups.core.consumer_protocol import (
    Subscription,
    assigned_partitions,
    assignment,
    stated_subscription,
    subscription,
)

# What librdkafka 2 and kafka-python 2 send: version, topics, user data, owned partitions (from version 1).
RANGE_OF_LIBRDKAFKA = bytes.fromhex("0003 00000002 0006 636c69636b73 0006 6f7264657273 00000000 00000000")
TWO_TOPICS = bytes.fromhex("0000 00000002 0006 636c69636b73 0006 6f7264657273 ffffffff")
ASSIGNED = bytes.fromhex("0001 00000001 0006 6f7264657273 00000002 00000003 00000000 ffffffff")


def test_an_assignment_names_partitions_by_topic() -> None:
    assert assigned_partitions(ASSIGNED) == {"orders": [0, 3]}


def test_what_is_written_for_tools_is_read_again() -> None:
    given = {"orders": [0, 5, 7], "Zürich": [1]}
    assert assigned_partitions(assignment(given)) == given
    assert assigned_partitions(assignment({})) == {}
    assert subscription(["orders", "clicks"]) == TWO_TOPICS


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0",
        b"not Kafka's",
        struct.pack(">hi", -1, 0),
        struct.pack(">hi", 0, 2**31 - 1),
        struct.pack(">hih", 0, 1, -1),
        struct.pack(">hih2sii", 0, 1, 2, b"\xff\xfe", 1, 0),
        struct.pack(">hih1sii", 0, 1, 1, b"\0", 1, 0),
        struct.pack(">hih1si", 0, 1, 1, b"a", 2**31 - 1),
    ],
)
def test_what_is_no_assignment_is_none(payload: bytes) -> None:
    assert assigned_partitions(payload) is None


def test_a_partition_below_zero_is_no_partition() -> None:
    assert assigned_partitions(struct.pack(">hih1siii", 0, 1, 1, b"a", 1, -7, -1)) is None


def test_a_null_array_is_an_empty_one() -> None:
    assert assigned_partitions(struct.pack(">hi", 0, -1)) == {}


def test_no_bytes_break_the_reader() -> None:
    chance = random.Random(9)
    for _ in range(3_000):
        payload = bytearray(chance.choice((RANGE_OF_LIBRDKAFKA, ASSIGNED)))
        for _ in range(chance.randint(1, 4)):
            payload[chance.randrange(len(payload))] = chance.randrange(256)
        cut = bytes(payload[: chance.randint(0, len(payload))])
        assigned_partitions(cut)
        stated_subscription(cut)


def test_a_subscription_is_read_in_every_version() -> None:
    assert stated_subscription(TWO_TOPICS) == Subscription(0, ["clicks", "orders"])
    body = bytes.fromhex("00000001 0006 6f7264657273 00000003 010203")
    owned = bytes.fromhex("00000001 0006 6f7264657273 00000002 00000004 00000001")
    first = Subscription(1, ["orders"], 3, {"orders": [1, 4]})
    assert stated_subscription(b"\0\1" + body + owned) == first
    third = b"\0\3" + body + owned + struct.pack(">ih", 17, 1) + b"a"
    assert stated_subscription(third) == Subscription(3, ["orders"], 3, {"orders": [1, 4]}, 17, "a")
    without = b"\0\3" + body + owned + struct.pack(">ih", -1, -1)
    assert stated_subscription(without) == Subscription(3, ["orders"], 3, {"orders": [1, 4]})


@pytest.mark.parametrize(
    "payload", [b"", b"\0", b"\xff\xff\0\0\0\0", TWO_TOPICS[:-5], b"\0\1" + TWO_TOPICS[2:]]
)
def test_what_is_no_subscription_is_none(payload: bytes) -> None:
    assert stated_subscription(payload) is None
