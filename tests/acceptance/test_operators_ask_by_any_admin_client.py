"""AdminClients of seven kinds create, describe, grow, configure, move, elect, delete, at broker and node."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from tests.acceptance.members import BUILT, PROGRAMS, java, missing
from tests.acceptance.story import Stack, create, doors, running_stack

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
LIMIT_S: Final = 180
NUMBERS: Final = count(1)
RECORDS: Final = 7
_PYTHON: Final = [sys.executable, str(PROGRAMS / "python" / "admin.py")]

ADMINS: Final = {
    "librdkafka": [*_PYTHON, "librdkafka"],
    "kafka-python": [*_PYTHON, "kafka-python"],
    "aiokafka": [*_PYTHON, "aiokafka"],
    "java": [],
    "franz": [str(BUILT / "go" / "franzadmin")],
    "sarama": [str(BUILT / "go" / "saramaadmin")],
    "kafkajs": ["node", str(BUILT / "node" / "admin.mjs")],
}
LACKS: Final = {
    "librdkafka": {"moved"},
    "aiokafka": {"moved", "elected", "ends"},
    "kafkajs": {"elected"},
}
"""What a library has no call for."""

EVERYTHING: Final = {
    # Nodes are told as brokers are, for they coordinate groups.
    "cluster": [1, 2, 3, 10001, 10002],
    "created": [2, 2],
    "grown": 4,
    "config": "86400000",
    "moved": True,
    "elected": True,
    "ends": [0, RECORDS],
    "deleted": True,
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two nodes and three brokers, and a topic with records."""
    with running_stack(tmp_path_factory.mktemp("stack") / "home", brokers=3) as told:
        create(told["bootstrap"], "clicks", partitions=1)
        producer = Producer({"bootstrap.servers": told["bootstrap"]})
        for _ in range(RECORDS):
            producer.produce("clicks", value=b"click")
        assert producer.flush(60) == 0
        yield told


def asked(client: str, bootstrap: str, topic: str) -> dict[str, Any]:
    """What the client's program was told."""
    command = ADMINS[client] or [*java(), "Admins"]
    said = subprocess.run(
        [*command, bootstrap, topic, "clicks"], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
    told: dict[str, Any] = json.loads(said.stdout)
    if "elected" in told:
        # Who stands first leads already. Each library has words of its own for that.
        told["elected"] = (
            "notneeded" in "".join(filter(str.isalpha, told["elected"].lower())) or told["elected"]
        )
    return told


@pytest.mark.parametrize("door", ["broker", "node"])
@pytest.mark.parametrize("client", ADMINS)
def test_everything_is_asked_at_a_door(stack: Stack, client: str, door: str) -> None:
    if reason := missing(client):
        pytest.skip(reason)
    told = asked(client, doors(stack)[door], f"orders-{next(NUMBERS)}")
    assert told == {name: value for name, value in EVERYTHING.items() if name not in LACKS.get(client, set())}
