"""Of topics that are created together each is judged by its own name, as Kafka does it."""

import asyncio
from datetime import timedelta
from typing import Any

from kafkaserver.admin.configs import SetConfigs
from kafkaserver.admin.topics import TopicHandlers
from kafkaserver.later import Later
from muster.kafkawire.api_table import ApiKey, read_request_header
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import CreateTopics, Wish
from muster.messages.link.to_broker import CreatedTopic, CreateTopicsAnswer, WishAnswer
from tests.unit.kafkaserver.kafka_requests import body_of, frame, parts
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import caller
from tests.unit.kafkaserver.test_configs_are_for_whoever_may import Place

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Willing:
    """Creates whatever it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, wish: Wish) -> WishAnswer:
        assert isinstance(wish, CreateTopics)
        self.asked += [one.name for one in wish.topics]
        return CreateTopicsAnswer(
            correlation_id=0, topics=tuple(CreatedTopic(name=one.name) for one in wish.topics)
        )

    async def look(self, *_: object) -> SetConfigs:
        return SetConfigs()

    async def until_known(self, *_: object) -> None:
        pass


async def created(willing: Willing, *names: str, operations: tuple[str, ...] = ("operate",)) -> list[Any]:
    key, version = ApiKey.CREATE_TOPICS, 7
    handlers = TopicHandlers(willing, Later(), lambda: Instant(0), lambda _: None, willing)
    topics = tuple(
        parts(
            key, version, "CreatableTopic", name=name, num_partitions=1, replication_factor=1, assignments=(),
            configs=(),
        )
        for name in names
    )  # fmt: skip
    asked = frame(key, version, topics=topics, timeout=timedelta(seconds=1), validate_only=False)
    place = Place(caller(operations=operations, topics=("orders",)))
    handlers.create(read_request_header(asked), asked, place)  # type: ignore[arg-type]
    body = body_of(key, version, await asyncio.wait_for(place.answered, 5))
    return [(one.name, int(one.error_code)) for one in body.topics]


async def test_one_that_may_not_be_created_spoils_no_other() -> None:
    willing = Willing()
    assert await created(willing, "payments", "orders") == [("payments", REFUSED), ("orders", 0)]
    assert willing.asked == ["orders"]


async def test_where_none_may_be_created_nobody_is_asked() -> None:
    willing = Willing()
    assert await created(willing, "payments") == [("payments", REFUSED)]
    assert await created(willing, "orders", operations=("view",)) == [("orders", REFUSED)]
    assert willing.asked == []


async def test_one_that_is_named_twice_is_created_by_nobody() -> None:
    willing = Willing()
    assert await created(willing, "orders", "orders", "payments") == [
        ("orders", ErrorCode.INVALID_REQUEST),
        ("payments", REFUSED),
    ]
    assert willing.asked == []
