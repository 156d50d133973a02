"""A node tells what rows say of configs, and asks for changes as every door does."""

from typing import Any

from controller.catalog import ConfigsOfBroker, StoredConfigs
from muster.kafkawire.api_table import ApiKey, part, request_class
from muster.kernel.error_codes import ErrorCode
from runtime.ports import ConnectionLost
from tests.unit.gateway.doors import Peer, kafka_door

TOPIC, BROKER = 2, 4
SET_FOR_TOPIC, SET_FOR_BROKER, SET_FOR_ALL, STARTED_WITH, DEFAULT = range(1, 6)


async def described(peer: Peer, *resources: tuple[int, str]) -> list[Any]:
    resource = part(request_class(ApiKey.DESCRIBE_CONFIGS, 4), "DescribeConfigsResource")
    asked = tuple(
        resource(resource_type=kind, resource_name=name, configuration_keys=None) for kind, name in resources
    )
    body = await peer.ask(
        ApiKey.DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=True, include_documentation=False
    )
    return list(body.results)


def told(result: Any) -> dict[str, tuple[str, int]]:
    return {one.name: (one.value, one.config_source) for one in result.configs}


async def test_what_rows_say_is_told_with_its_source() -> None:
    async with kafka_door() as door:
        door.node.configs = StoredConfigs(
            {"orders": {"retention.ms": "1"}},
            {1: ConfigsOfBroker({"log.retention.ms": "2"}, {"segment.bytes": "2097152"})},
            {"log.retention.ms": "3", "min.insync.replicas": "2"},
            {"segment.bytes": "3145728"},
        )
        peer = await door.peer()
        orders, one, everyone, nothing = await described(
            peer, (TOPIC, "orders"), (BROKER, "1"), (BROKER, ""), (TOPIC, "clicks")
        )
        assert told(orders)["retention.ms"] == ("1", SET_FOR_TOPIC)
        assert told(orders)["segment.bytes"] == ("3145728", STARTED_WITH), "all brokers were"
        assert told(orders)["min.insync.replicas"] == ("2", SET_FOR_ALL)
        assert told(one)["log.retention.ms"] == ("2", SET_FOR_BROKER)
        assert told(one)["log.segment.bytes"] == ("2097152", STARTED_WITH)
        assert told(everyone) == {
            "log.retention.ms": ("3", SET_FOR_ALL),
            "min.insync.replicas": ("2", SET_FOR_ALL),
        }
        assert int(nothing.error_code) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_database_that_is_away_is_said_to_be() -> None:
    async with kafka_door() as door:
        door.node.fails_with = ConnectionLost("the database is away")
        [orders] = await described(await door.peer(), (TOPIC, "orders"))
        assert int(orders.error_code) == ErrorCode.REQUEST_TIMED_OUT
        assert "away" in orders.error_message
