"""A name may fill its field; a refusal that tells it back has less room, and is an answer all the same."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kafkaserver.admin.configs import ConfigHandlers, SetConfigs
from kafkaserver.admin.partitions import PartitionHandlers
from kafkaserver.admin.quotas import QuotaHandlers
from kafkaserver.admin.topics import TopicHandlers
from kafkaserver.later import Later
from muster.kafkawire.api_table import LONGEST_MESSAGE, SERVED, ApiKey, read_request_header
from muster.kernel.config_levels import Levels
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import Wish
from muster.messages.link.to_broker import WishAnswer
from tests.unit.controller_core.stage import Cluster, heard, row, said
from tests.unit.kafkaserver.kafka_requests import Kept, body_of, frame, parts

LONG = "x" * 32_767
SOON = timedelta(seconds=1)


class Place(Kept):
    identity, peer = None, "a test"

    def park(self, _elements: int, _when_gone: Callable[[], None]) -> None:
        pass


class Core:
    """The controller behind the door; it knows one topic."""

    def __init__(self) -> None:
        self._cluster = Cluster([row(0, (1, 2), 1, (1, 2))])

    async def ask(self, wish: Wish) -> WishAnswer:
        replies: list[Any] = said(self._cluster.turn(heard("link-1a", wish)), "link-1a")
        answer: WishAnswer = replies[0]
        return answer

    async def look(self, *_: object) -> SetConfigs:
        return SetConfigs(topics={"orders": {}}, brokers={1: Levels()})

    async def until_known(self, *_: object) -> None:
        pass


def asked(key: ApiKey, version: int) -> dict[str, Any]:
    def one(kind: str, **fields: Any) -> tuple[Any, ...]:
        return (parts(key, version, kind, **fields),)

    match key:
        case ApiKey.CREATE_TOPICS:
            configs = one("CreatableTopicConfig", name=LONG, value="1")
            counts = {"num_partitions": 1, "replication_factor": 1, "assignments": ()}
            topics = one("CreatableTopic", name="clicks", configs=configs, **counts)
            return {"topics": topics, "timeout": SOON, "validate_only": False}
        case ApiKey.DELETE_TOPICS:
            named = one("DeleteTopicState", name=LONG, topic_id=None) if version >= 6 else ()
            return {"topics": named, "topic_names": (LONG,), "timeout": SOON}
        case ApiKey.CREATE_PARTITIONS:
            topics = one("CreatePartitionsTopic", name=LONG, count=2, assignments=None)
            return {"topics": topics, "timeout": SOON, "validate_only": False}
        case ApiKey.DESCRIBE_CONFIGS:
            resource = {"resource_type": 2, "resource_name": LONG, "configuration_keys": None}
            return {
                "resources": one("DescribeConfigsResource", **resource),
                "include_synonyms": False,
                "include_documentation": False,
            }
        case ApiKey.ALTER_CONFIGS:
            changes = one("AlterableConfig", name=LONG, value="1")
            resources = one("AlterConfigsResource", resource_type=2, resource_name="orders", configs=changes)
            return {"resources": resources, "validate_only": False}
        case ApiKey.INCREMENTAL_ALTER_CONFIGS:
            changes = one("AlterableConfig", name="retention.ms", value=LONG, config_operation=0)
            resources = one("AlterConfigsResource", resource_type=2, resource_name=LONG, configs=changes)
            return {"resources": resources, "validate_only": False}
        case ApiKey.DESCRIBE_CLIENT_QUOTAS:
            return {
                "components": one("ComponentData", entity_type=LONG, match_type=0, match="a"),
                "strict": False,
            }
        case ApiKey.ALTER_CLIENT_QUOTAS:
            entity = one("EntityData", entity_type=LONG, entity_name="a")
            return {"entries": one("EntryData", entity=entity, ops=()), "validate_only": False}
    raise AssertionError(key)


async def answered(key: ApiKey, version: int) -> Any:
    core, later = Core(), Later()
    topics = TopicHandlers(core, later, lambda: Instant(0), lambda _: None, core)
    configs, quotas = ConfigHandlers(core, core, later), QuotaHandlers(core, later)
    handler = {
        ApiKey.CREATE_TOPICS: topics.create,
        ApiKey.DELETE_TOPICS: topics.delete,
        ApiKey.CREATE_PARTITIONS: PartitionHandlers(core, later).create,
        **configs.handlers,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: quotas.describe,
        ApiKey.ALTER_CLIENT_QUOTAS: quotas.alter,
    }[key]
    question, place = frame(key, version, **asked(key, version)), Place()
    handler(read_request_header(question), question, place)  # type: ignore[arg-type]
    async with asyncio.timeout(5):
        while not place.pieces and not place.hung_up:
            await asyncio.sleep(0)
    assert not place.hung_up
    return body_of(key, version, b"".join(place.pieces))


EVERY_VERSION = [
    (key, version)
    for key in (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
    )
    for version in range(SERVED[key].minimum, SERVED[key].maximum + 1)
]


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
async def test_it_is_answered_by_an_error(key: ApiKey, version: int) -> None:
    body = await answered(key, version)
    lists = (getattr(body, name, None) for name in ("topics", "responses", "results", "entries"))
    told = next((list(one) for one in lists if one), [body])
    (one,) = told
    assert int(one.error_code) != 0
    assert len(getattr(one, "error_message", None) or "") <= LONGEST_MESSAGE + 1
