"""What a token names it may look at and change; the whole cluster is for whoever may change every topic."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import pytest

from kafkaserver.admin.configs import ConfigHandlers, SetConfigs
from kafkaserver.callers import ALTER_CONFIGS, KafkaCaller
from kafkaserver.later import Later
from muster.kafkawire.api_table import ApiKey, read_request_header
from muster.kernel.config_levels import Levels
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.configs import AlterConfigs, ConfigResult, ConfigResults
from muster.messages.link.from_broker import Wish
from muster.messages.link.to_broker import WishAnswer
from tests.unit.kafkaserver.kafka_requests import body_of, frame, parts
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import caller

TOPIC, BROKER = 2, 4
RESOURCES = ((TOPIC, "orders"), (TOPIC, "payments"), (BROKER, "1"), (BROKER, ""))


class Place:
    """The place of one answer to somebody with a token."""

    def __init__(self, identity: KafkaCaller) -> None:
        self.identity = identity
        self.peer = "a test"
        self.answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def park(self, _elements: int, _when_gone: Callable[[], None]) -> None:
        pass

    def send(self, *pieces: bytes) -> None:
        self.answered.set_result(b"".join(pieces))


class Willing:
    """Knows two topics and one broker, and lets everything happen."""

    def __init__(self) -> None:
        self.wishes: list[AlterConfigs] = []
        self.looked: list[set[str]] = []

    async def ask(self, wish: Wish) -> WishAnswer:
        assert isinstance(wish, AlterConfigs)
        self.wishes.append(wish)
        results = tuple(ConfigResult(type=one.type, name=one.name) for one in wish.resources)
        return ConfigResults(results=results)

    async def look(self, topics: Collection[str], brokers: Collection[int]) -> SetConfigs:
        self.looked.append(set(topics))
        return SetConfigs({"orders": {}, "payments": {}}, {1: Levels()}, levels=Levels())

    async def until_known(self, version: int, timeout_s: float) -> None:
        pass


async def answered(identity: KafkaCaller, willing: Willing, key: ApiKey, version: int, **fields: Any) -> Any:
    handlers = ConfigHandlers(willing, willing, Later())
    asked, place = frame(key, version, **fields), Place(identity)
    handler = handlers.describe if key is ApiKey.DESCRIBE_CONFIGS else handlers.alter
    handler(read_request_header(asked), asked, place)  # type: ignore[arg-type]
    return body_of(key, version, await asyncio.wait_for(place.answered, 5))


async def described(identity: KafkaCaller, willing: Willing) -> list[int]:
    key = ApiKey.DESCRIBE_CONFIGS
    resources = tuple(
        parts(
            key, 4, "DescribeConfigsResource", resource_type=kind, resource_name=name, configuration_keys=None
        )
        for kind, name in RESOURCES
    )
    body = await answered(
        identity, willing, key, 4, resources=resources, include_synonyms=False, include_documentation=False
    )
    return [int(one.error_code) for one in body.results]


async def changed(identity: KafkaCaller, willing: Willing) -> list[int]:
    key = ApiKey.ALTER_CONFIGS
    resources = tuple(
        parts(key, 2, "AlterConfigsResource", resource_type=kind, resource_name=name, configs=())
        for kind, name in RESOURCES
    )
    body = await answered(identity, willing, key, 2, resources=resources, validate_only=False)
    return [int(one.error_code) for one in body.responses]


NO_TOPIC, NO_CLUSTER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("operations", "topics", "looks", "changes"),
    [
        (
            ("consume",),
            ("orders",),
            (0, NO_TOPIC, NO_CLUSTER, NO_CLUSTER),
            (NO_TOPIC,) * 2 + (NO_CLUSTER,) * 2,
        ),
        (("view",), (), (0, 0, 0, 0), (NO_TOPIC,) * 2 + (NO_CLUSTER,) * 2),
        (("operate",), ("orders",), (0, NO_TOPIC, 0, 0), (0, NO_TOPIC, NO_CLUSTER, NO_CLUSTER)),
        (("operate",), (), (0, 0, 0, 0), (0, 0, 0, 0)),
    ],
)
async def test_each_is_answered_by_what_its_token_says(
    operations: tuple[str, ...], topics: tuple[str, ...], looks: tuple[int, ...], changes: tuple[int, ...]
) -> None:
    ann, willing = caller(operations=operations, topics=topics, groups=()), Willing()
    assert await described(ann, willing) == list(looks)
    assert willing.looked == [{"orders"} if topics else {"orders", "payments"}], "nobody else's is read"
    assert await changed(ann, willing) == list(changes)
    asked = [(one.type, one.name) for wish in willing.wishes for one in wish.resources]
    assert asked == [one for one, code in zip(RESOURCES, changes, strict=True) if code == 0]
    assert all(wish.principal == "team-a" for wish in willing.wishes)


async def test_a_token_for_some_groups_changes_no_cluster() -> None:
    """As DescribeCluster tells it, which names no ALTER_CONFIGS to such a token."""
    ann, willing = caller(operations=("operate",), topics=(), groups=("readers",)), Willing()
    assert not ann.cluster_operations & 1 << ALTER_CONFIGS
    assert await changed(ann, willing) == [0, 0, NO_CLUSTER, NO_CLUSTER]
