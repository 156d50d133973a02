"""A broker whose port is none, as somebody named it, is one that is away: no consumer ends of it."""

from pathlib import Path

import pytest

from muster.client.broker_connection import BrokerConnection, BrokerUnavailable
from tests.unit.client.stage import places, staged, take, until


@pytest.mark.parametrize("port", ["65536", "-1", str(2**31 - 1), "none"])
async def test_nobody_connects_to_it(port: str) -> None:
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1"):
        await BrokerConnection.open(f"127.0.0.1:{port}", "sdk")


async def test_a_consumer_outlives_being_told_of_it(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.coordinator.shares = [places(0)]
        await stage.fill(1)
        there = stage.controller.endpoint
        stage.controller.endpoint = ("127.0.0.1", 65_536)
        stage.controller.publish()
        async with stage.consumer() as consumer:
            await until(lambda: "port must be" in consumer.state_text)
            stage.controller.endpoint = there
            stage.controller.publish()
            assert await take(consumer, 1) == [(0, 0)]
