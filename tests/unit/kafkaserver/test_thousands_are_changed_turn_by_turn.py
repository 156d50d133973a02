"""Requests of thousands, as Kafka's tools send them, are decided in several turns and answered one by one."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from kafkaserver.admin import configs, topics
from kafkaserver.admin.asking import ControllerUnreachable
from kafkaserver.admin.configs import ConfigHandlers, SetConfigs
from kafkaserver.admin.created_topics import CreatedTopics
from kafkaserver.admin.outcomes import altered_configs, deleted_topics, grown_topics
from kafkaserver.admin.partitions import PartitionHandlers
from kafkaserver.admin.topics import TopicHandlers
from kafkaserver.later import Later
from kafkaserver.replies import Handler
from muster.kafkawire.api_table import (
    LONGEST_MESSAGE,
    SERVED,
    ApiKey,
    build,
    encode_body,
    encode_reply,
    part,
    read_request_header,
    response_class,
)
from muster.kernel.config_levels import Levels
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant
from muster.messages.link.configs import AlterConfigs, ConfigResult, ConfigResults, ResourceType
from muster.messages.link.from_broker import CreatePartitions, DeleteTopics, Wish
from muster.messages.link.to_broker import CreatedTopic, TopicResult, TopicResults, WishAnswer
from tests.unit.kafkaserver.kafka_requests import body_of, frame, parts
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import caller
from tests.unit.kafkaserver.test_configs_are_for_whoever_may import Place

DELETE, GROW, CREATE = ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.CREATE_TOPICS
WHOLE, SOME = ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS
NONE, UNKNOWN, TIMED_OUT, NOT_CONTROLLER, INVALID_REQUEST, POLICY_VIOLATION = 0, 3, 7, 41, 42, 44
MANY = 3_000
NAMES = tuple(f"topic-{number}" for number in range(MANY))
ABSENT = NAMES[1_500]
HALF_A_MINUTE = timedelta(seconds=30)
AT_ONCE = {"timeout": HALF_A_MINUTE, "validate_only": False}


class Controller:
    """Decides what is asked, and knows no topic ABSENT; after `turns` it is away."""

    def __init__(self, turns: int = 100) -> None:
        self.asked: list[Wish] = []
        self.known: list[int] = []
        self._turns = turns

    async def ask(self, wish: Wish) -> WishAnswer:
        if len(self.asked) == self._turns:
            raise ControllerUnreachable("the link to the controller broke")
        self.asked.append(wish)
        if isinstance(wish, AlterConfigs):
            version = len(self.asked)
            configured = tuple(
                ConfigResult(type=one.type, name=one.name, error=_said(one.name), text="", version=version)
                for one in wish.resources
            )
            return ConfigResults(correlation_id=0, results=configured)
        assert isinstance(wish, DeleteTopics | CreatePartitions)
        results = tuple(TopicResult(name=one.name, error=_said(one.name)) for one in wish.topics)
        return TopicResults(correlation_id=0, topics=results)

    async def look(self, *_: object) -> SetConfigs:
        return SetConfigs()

    async def until_known(self, version: int, _timeout_s: float) -> None:
        self.known.append(version)


def _said(name: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name == ABSENT else ErrorCode.NONE


async def answered(handler: Handler, key: ApiKey, version: int, /, **fields: Any) -> Any:
    asked = frame(key, version, **fields)
    place = Place(caller(operations=("operate",), topics=("*",)))
    handler(read_request_header(asked), asked, place)  # type: ignore[arg-type]
    return body_of(key, version, await place.answered)


async def deleted(controller: Controller, names: Sequence[str] = NAMES) -> Sequence[Any]:
    handlers = TopicHandlers(controller, Later(), lambda: Instant(0), lambda _: None, controller)
    named = tuple(parts(DELETE, 6, "DeleteTopicState", name=name, topic_id=None) for name in names)
    return (await answered(handlers.delete, DELETE, 6, topics=named, timeout=HALF_A_MINUTE)).responses  # type: ignore[no-any-return]


async def grown(controller: Controller, names: Sequence[str] = NAMES) -> Sequence[Any]:
    handlers = PartitionHandlers(controller, Later())
    topic = "CreatePartitionsTopic"
    named = tuple(parts(GROW, 3, topic, name=name, count=2, assignments=None) for name in names)
    return (await answered(handlers.create, GROW, 3, topics=named, **AT_ONCE)).results  # type: ignore[no-any-return]


async def configured(controller: Controller, names: Sequence[str] = NAMES) -> Sequence[Any]:
    handlers = ConfigHandlers(controller, controller, Later())
    config = parts(SOME, 1, "AlterableConfig", name="retention.ms", config_operation=0, value="1000")
    resources = tuple(
        parts(
            SOME,
            1,
            "AlterConfigsResource",
            resource_type=ResourceType.TOPIC,
            resource_name=name,
            configs=(config,),
        )
        for name in names
    )
    return (await answered(handlers.alter, SOME, 1, resources=resources, validate_only=False)).responses  # type: ignore[no-any-return]


EACH = pytest.mark.parametrize("ask", [deleted, grown, configured])


@EACH
async def test_each_of_three_thousand_is_answered_for_itself(
    ask: Callable[[Controller], Any],
) -> None:
    controller = Controller()
    told = await ask(controller)
    assert [getattr(one, "name", None) or one.resource_name for one in told] == list(NAMES)
    errors = [int(one.error_code) for one in told]
    assert (errors.count(NONE), errors[1_500]) == (MANY - 1, UNKNOWN)
    sizes = [len(getattr(wish, "topics", None) or wish.resources) for wish in controller.asked]  # type: ignore[union-attr]
    assert sizes == [configs.CHANGED_AT_ONCE] * 12 == [topics.CHANGED_AT_ONCE] * 12


@EACH
async def test_what_was_decided_before_the_controller_went_is_told(
    ask: Callable[[Controller], Any],
) -> None:
    """Of the others it is not told that this is no controller: Java's client would ask for all of them again,
    and hear of each that it has deleted that there is no such topic.
    """
    controller = Controller(turns=1)
    errors = [int(one.error_code) for one in await ask(controller)]
    assert errors == [NONE] * 250 + [TIMED_OUT] * 2_750


@EACH
async def test_of_what_nothing_is_decided_all_is_to_be_asked_again(
    ask: Callable[..., Any],
) -> None:
    assert {int(one.error_code) for one in await ask(Controller(turns=0))} == {NOT_CONTROLLER}


@EACH
async def test_what_is_named_twice_is_refused_however_far_apart(ask: Callable[..., Any]) -> None:
    controller = Controller()
    told = await ask(controller, (*NAMES, NAMES[0]))
    errors = {getattr(one, "name", None) or one.resource_name: int(one.error_code) for one in told}
    assert (errors[NAMES[0]], errors[NAMES[1]]) == (INVALID_REQUEST, NONE)
    asked = [one.name for wish in controller.asked for one in getattr(wish, "topics", ()) or wish.resources]  # type: ignore[union-attr]
    assert asked == list(NAMES[1:])


async def test_a_topic_that_is_named_by_its_name_and_its_id_is_named_twice() -> None:
    controller, first = Controller(), UUID(int=1)
    ids = {first: NAMES[0]}
    handlers = TopicHandlers(controller, Later(), lambda: Instant(0), ids.get, controller)
    named = [parts(DELETE, 6, "DeleteTopicState", name=name, topic_id=None) for name in NAMES]
    named.append(parts(DELETE, 6, "DeleteTopicState", name=None, topic_id=first))
    fields = {"topics": tuple(named), "timeout": HALF_A_MINUTE}
    told = (await answered(handlers.delete, DELETE, 6, **fields)).responses
    errors = [int(one.error_code) for one in told]
    assert (errors[0], errors[1], errors[-1]) == (INVALID_REQUEST, NONE, INVALID_REQUEST)


async def test_whoever_changed_configs_is_answered_when_the_last_of_them_is_known_here() -> None:
    controller = Controller()
    await configured(controller)
    assert controller.known == [12]


async def test_the_turns_of_one_request_share_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Controller):
        """Each turn takes ten seconds."""

        at = 100.0

        async def ask(self, wish: Wish) -> WishAnswer:
            self.at += 10
            return await super().ask(wish)

    controller = Slow()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: controller.at)
    await grown(controller)
    left_ms = [wish.timeout_ms for wish in controller.asked if isinstance(wish, CreatePartitions)]
    assert left_ms == [30_000, 20_000, 10_000, *[0] * 9]


async def test_more_topics_than_one_request_may_create_are_refused_with_the_reason() -> None:
    controller = Controller()
    handlers = TopicHandlers(controller, Later(), lambda: Instant(0), lambda _: None, controller)
    new = {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    named = tuple(parts(CREATE, 7, "CreatableTopic", name=name, **new) for name in NAMES)
    told = (await answered(handlers.create, CREATE, 7, topics=named, **AT_ONCE)).topics
    assert {int(one.error_code) for one in told} == {POLICY_VIOLATION}
    assert (len(told), told[0].error_message) == (MANY, "one request creates at most 1000 topics")


def versions(key: ApiKey) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", range(SERVED[key].minimum, SERVED[key].maximum + 1))


TOLD = [
    ("orders", ErrorCode.NONE, ""),
    ("ü-日本", ErrorCode.POLICY_VIOLATION, "日" * (LONGEST_MESSAGE + 1)),
    ("x" * 249, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is none"),
    ("y", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is none"),
]
"""Each answer by hand is byte for byte what kio's writer makes of it."""


@versions(GROW)
def test_grown_topics_are_worded_as_by_kio(version: int) -> None:
    shape = response_class(GROW, version)
    one = part(shape, "CreatePartitionsTopicResult")
    results = tuple(
        build(one, name=name, error_code=error, error_message=why or None) for name, error, why in TOLD
    )
    assert grown_topics(version, TOLD) == encode_body(build(shape, results=results))


@versions(DELETE)
def test_deleted_topics_are_worded_as_by_kio(version: int) -> None:
    shape = response_class(DELETE, version)
    one = part(shape, "DeletableTopicResult")
    told: list[tuple[str | None, UUID | None, ErrorCode, str]] = [
        (name, UUID(int=number) if number else None, error, why)
        for number, (name, error, why) in enumerate(TOLD)
    ]
    if version >= 6:
        told.append((None, UUID(int=9), ErrorCode.UNKNOWN_TOPIC_ID, "nobody knows it"))
    responses = tuple(
        build(one, name=name, topic_id=topic_id, error_code=error, error_message=why or None)
        for name, topic_id, error, why in told
    )
    assert deleted_topics(version, told) == encode_body(build(shape, responses=responses))


@pytest.mark.parametrize(("key", "version"), [(WHOLE, 0), (WHOLE, 1), (WHOLE, 2), (SOME, 0), (SOME, 1)])
def test_altered_configs_are_worded_as_by_kio(key: ApiKey, version: int) -> None:
    shape = response_class(key, version)
    one = part(shape, "AlterConfigsResourceResponse")
    told = [(2, name, error, why) for name, error, why in TOLD]
    responses = tuple(
        build(one, error_code=error, error_message=why or None, resource_type=kind, resource_name=name)
        for kind, name, error, why in told
    )
    assert altered_configs(key, version, told) == encode_body(build(shape, responses=responses))


@versions(CREATE)
def test_topics_that_are_not_created_are_worded_as_by_kio(version: int) -> None:
    shape = response_class(CREATE, version)
    one = part(shape, "CreatableTopicResult")
    late = CreatedTopic(
        name="late", error=ErrorCode.REQUEST_TIMED_OUT, text="no leaders yet", topic_id=UUID(int=7),
        partition_count=3, replication_factor=2,
    )  # fmt: skip
    answers = [CreatedTopic(name=name, error=error, text=why) for name, error, why in TOLD[1:]] + [late]
    told = CreatedTopics(version, Levels())
    for answer in answers:
        told.add(answer, {})
    named = tuple(
        build(
            one,
            name=answer.name,
            topic_id=answer.topic_id,
            error_code=answer.error,
            error_message=answer.text or None,
            num_partitions=answer.partition_count,
            replication_factor=answer.replication_factor,
            configs=(),
        )
        for answer in answers
    )
    assert told.frame(7, timedelta(0)) == encode_reply(CREATE, version, 7, build(shape, topics=named))


async def test_the_next_turn_waits_for_no_leader_of_the_one_before() -> None:
    class Held(Controller):
        """Answers when three have asked."""

        async def ask(self, wish: Wish) -> WishAnswer:
            answer = await super().ask(wish)
            if len(self.asked) == topics.IN_FLIGHT:
                three.set()
            await three.wait()
            return answer

    three = asyncio.Event()
    async with asyncio.timeout(10):
        assert len(await grown(Held())) == MANY


async def test_of_what_one_turn_in_flight_decides_while_another_fails_nothing_is_asked_again() -> None:
    class Broken(Controller):
        """Whoever asks first is not answered; the others are."""

        async def ask(self, wish: Wish) -> WishAnswer:
            answer = await super().ask(wish)
            if len(self.asked) == 1:
                await three.wait()
                raise ControllerUnreachable("the controller did not answer in time")
            if len(self.asked) == topics.IN_FLIGHT:
                three.set()
            return answer

    three = asyncio.Event()
    async with asyncio.timeout(10):
        errors = [int(one.error_code) for one in await deleted(Broken())]
    assert errors[:250] == [TIMED_OUT] * 250
    assert (NONE in errors, NOT_CONTROLLER in errors) == (True, False)
