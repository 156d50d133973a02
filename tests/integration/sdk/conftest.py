"""Fixtures of the SDK's tests: a broker of the test's own, known to the shared control plane."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from muster import Consumer
from tests.integration.coordinator.control_plane import ControlPlane
from tests.integration.sdk.brokers import LoneBroker, topic_id

NewConsumer = Callable[..., Consumer]
PARTITIONS = 4


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LoneBroker]:
    """A running broker with `orders` (3 partitions) and `clicks` (1)."""
    lone = LoneBroker(tmp_path, orders=3, clicks=1)
    lone.start()
    yield lone
    lone.stop()


@pytest.fixture
def topic(plane: ControlPlane, tmp_path: Path) -> Iterator[LoneBroker]:
    """A running broker with one topic of 4 partitions that the control plane knows; `.topic` is its name."""
    name = f"orders-{uuid4().hex[:8]}"
    lone = LoneBroker(tmp_path, **{name: PARTITIONS})
    lone.start()
    plane.add_broker(1, lone.address)
    plane.add_topic(name, PARTITIONS, topic_id(name))
    yield lone
    lone.stop()


@pytest.fixture
async def new_consumer(plane: ControlPlane, topic: LoneBroker, group: str) -> AsyncIterator[NewConsumer]:
    """Makes consumers of `group` and `topic` that read from the beginning."""
    async with AsyncExitStack() as at_the_end:

        def make(consumer_id: str, **options: Any) -> Consumer:
            consumer = Consumer(
                group,
                [topic.topic],
                nodes=list(plane.addresses.values()),
                token=plane.token(),
                consumer_id=consumer_id,
                **{"session_timeout_ms": 30_000, "auto_offset_reset": "earliest", **options},
            )
            at_the_end.push_async_callback(consumer.close)
            return consumer

        yield make
