"""What the controller's core decides of leaders and quotas is told in every version, to whoever may ask."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kafkaserver.admin.brokers import BrokerHandlers
from kafkaserver.admin.elections import ElectionHandlers
from kafkaserver.admin.quotas import QuotaHandlers
from kafkaserver.callers import ANYBODY, KafkaCaller
from kafkaserver.later import Later
from muster.kafkawire.api_table import SERVED, ApiKey, read_request_header
from muster.kernel.scopes import Scope
from muster.messages.link.from_broker import Wish
from muster.messages.link.to_broker import WishAnswer
from tests.unit.controller_core.stage import Cluster, heard, row, said
from tests.unit.kafkaserver.kafka_requests import Kept, body_of, frame, parts


class Place(Kept):
    """Where the answer to one caller goes, when it comes."""

    def __init__(self, caller: KafkaCaller) -> None:
        super().__init__()
        self.identity = caller
        self.peer = "ann"

    def park(self, elements: int, gone: Callable[[], None]) -> None:
        """Nobody hangs up here."""


class Core:
    """The controller's core, asked over the link of broker 1."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.wishes: list[Wish] = []

    async def ask(self, wish: Wish) -> WishAnswer:
        self.wishes.append(wish)
        replies: list[Any] = said(self._cluster.turn(heard("link-1a", wish)), "link-1a")
        answer: WishAnswer = replies[0]
        return answer


OLGA = KafkaCaller("olga", "olga", "0", frozenset({"operate", "view"}), Scope(), Scope())
OF_CLICKS = KafkaCaller("cleo", "cleo", "0", frozenset({"operate"}), Scope.of(["clicks"]), Scope())
VIEWER = KafkaCaller("vera", "vera", "0", frozenset({"view"}), Scope(), Scope())
VIEWER_OF_CLICKS = KafkaCaller("cora", "cora", "0", frozenset({"view"}), Scope.of(["clicks"]), Scope())


def versions(key: ApiKey) -> range:
    return range(SERVED[key].minimum, SERVED[key].maximum + 1)


def three_partitions() -> Core:
    """`orders`: partition 0 is led by its second replica, partition 1 by its first."""
    return Core(Cluster([row(0, (1, 2), 2, (1, 2)), row(1, (1, 2), 1, (1, 2))]))


async def asked(core: Core, key: ApiKey, version: int, caller: KafkaCaller = ANYBODY, **fields: Any) -> Any:
    """The answer of the handler of `key`."""
    later = Later()
    quotas = QuotaHandlers(core, later)
    handler = {
        ApiKey.ELECT_LEADERS: ElectionHandlers(core, later).elect,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: quotas.describe,
        ApiKey.ALTER_CLIENT_QUOTAS: quotas.alter,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: quotas.describe_credentials,
        ApiKey.UPDATE_FEATURES: BrokerHandlers(core, later).update_features,
    }[key]
    question, place = frame(key, version, **fields), Place(caller)
    handler(read_request_header(question), question, place)  # type: ignore[arg-type]
    async with asyncio.timeout(5):
        while not place.pieces:
            await asyncio.sleep(0)
    return body_of(key, version, b"".join(place.pieces))


async def elected(
    core: Core, version: int, *partitions: int, caller: KafkaCaller = ANYBODY, election_type: int = 0
) -> tuple[int, dict[int, int]]:
    named = parts(ApiKey.ELECT_LEADERS, version, "TopicPartitions", topic="orders", partitions=partitions)
    wanted = {"topic_partitions": (named,) if partitions else None, "election_type": election_type}
    answer = await asked(core, ApiKey.ELECT_LEADERS, version, caller, **wanted)
    errors = {
        one.partition_id: int(one.error_code)
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }
    return int(getattr(answer, "error_code", 0)), errors


@pytest.mark.parametrize("version", versions(ApiKey.ELECT_LEADERS))
async def test_each_partition_has_its_answer(version: int) -> None:
    assert await elected(three_partitions(), version, 0, 1, 7) == (0, {0: 0, 1: 84, 7: 3})


async def test_one_that_is_named_twice_is_answered_once() -> None:
    assert await elected(three_partitions(), 2, 0, 0) == (0, {0: 0})


@pytest.mark.parametrize("version", versions(ApiKey.ELECT_LEADERS))
async def test_of_all_partitions_those_that_need_none_are_left_out(version: int) -> None:
    assert await elected(three_partitions(), version) == (0, {0: 0})


async def test_a_token_for_other_topics_elects_nothing_here() -> None:
    core = three_partitions()
    assert await elected(core, 2, 0, caller=OF_CLICKS) == (0, {0: 29})
    assert await elected(core, 2, caller=OF_CLICKS) == (31, {})
    assert await elected(core, 2, 0, caller=VIEWER) == (0, {0: 29})
    assert core.wishes == []


async def test_an_election_of_another_type_is_refused() -> None:
    core = three_partitions()
    assert await elected(core, 1, 0, election_type=2) == (42, {0: 42})
    assert core.wishes == []


async def set_quota(
    core: Core, version: int, caller: KafkaCaller = ANYBODY, /, *operations: tuple[str, float, bool]
) -> list[tuple[int, str | None]]:
    key = ApiKey.ALTER_CLIENT_QUOTAS
    entity = (parts(key, version, "EntityData", entity_type="user", entity_name=None),)
    ops = tuple(parts(key, version, "OpData", key=k, value=v, remove=r) for k, v, r in operations)
    entry = parts(key, version, "EntryData", entity=entity, ops=ops)
    answer = await asked(core, key, version, caller, entries=(entry,), validate_only=False)
    (one,) = answer.entries
    assert [(named.entity_type, named.entity_name) for named in one.entity] == [("user", None)]
    return [(int(one.error_code), one.error_message)]


async def quotas(core: Core, version: int, caller: KafkaCaller = ANYBODY) -> tuple[int, Any]:
    answer = await asked(core, ApiKey.DESCRIBE_CLIENT_QUOTAS, version, caller, components=(), strict=False)
    if answer.entries is None:
        return int(answer.error_code), None
    told = [
        ([(one.entity_type, one.entity_name) for one in entry.entity], {v.key: v.value for v in entry.values})
        for entry in answer.entries
    ]
    return int(answer.error_code), told


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_CLIENT_QUOTAS))
async def test_a_quota_is_set_told_and_taken_away(version: int) -> None:
    core = three_partitions()
    rates = (("producer_byte_rate", 2e6, False), ("consumer_byte_rate", 1e6, False))
    assert await set_quota(core, version, OLGA, *rates) == [(0, None)]
    told = ([("user", None)], {"producer_byte_rate": 2e6, "consumer_byte_rate": 1e6})
    assert await quotas(core, version, VIEWER) == (0, [told])
    gone = tuple((key, 0.0, True) for key, _, _ in rates)
    assert await set_quota(core, version, OLGA, *gone) == [(0, None)]
    assert await quotas(core, version) == (0, [])
    assert [getattr(one, "principal", "") for one in core.wishes] == ["olga", "", "olga", ""]


@pytest.mark.parametrize(
    "rate", [0.0, 0.5, -1.0, float("nan"), float("inf"), 1e300], ids=lambda rate: str(rate)
)
async def test_a_rate_that_nobody_can_have_is_refused_in_words(rate: float) -> None:
    ((error, text),) = await set_quota(three_partitions(), 1, OLGA, ("producer_byte_rate", rate, False))
    assert error == 42 and text and "whole number of bytes" in text


async def test_quotas_are_for_whoever_may_change_the_cluster() -> None:
    core = three_partitions()
    for caller, version in itertools.product((OF_CLICKS, VIEWER), versions(ApiKey.ALTER_CLIENT_QUOTAS)):
        ((error, _),) = await set_quota(core, version, caller, ("producer_byte_rate", 1e6, False))
        assert error == 31
    assert await quotas(core, 1, OF_CLICKS) == (31, None)
    assert await quotas(core, 1, VIEWER_OF_CLICKS) == (31, None), "they name users and clients of others"
    assert core.wishes == []


async def test_users_have_no_credentials_that_a_client_may_list() -> None:
    key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    answer = await asked(three_partitions(), key, 0, users=(parts(key, 0, "UserName", name="olga"),))
    assert [(one.user, int(one.error_code)) for one in answer.results] == [("olga", 91)]
    named = tuple(parts(key, 0, "UserName", name=name) for name in ("olga", "mira", "olga"))
    answer = await asked(three_partitions(), key, 0, users=named)
    assert [(one.user, int(one.error_code)) for one in answer.results] == [("olga", 92), ("mira", 91)]
    assert (await asked(three_partitions(), key, 0, users=None)).results == ()


@pytest.mark.parametrize("version", versions(ApiKey.UPDATE_FEATURES))
async def test_there_is_no_feature_to_change(version: int) -> None:
    key = ApiKey.UPDATE_FEATURES
    said = {"allow_downgrade": False} if version == 0 else {"upgrade_type": 1}
    level = parts(key, version, "FeatureUpdateKey", feature="kraft.version", max_version_level=1, **said)
    wanted = {"feature_updates": (level,), "validate_only": False}
    answer = await asked(three_partitions(), key, version, OLGA, **wanted)
    assert int(answer.error_code) == 95 and "when they are upgraded" in answer.error_message
    nothing = await asked(three_partitions(), key, version, OLGA, feature_updates=(), validate_only=False)
    assert int(nothing.error_code) == 0
    answer = await asked(three_partitions(), ApiKey.UPDATE_FEATURES, version, VIEWER, **wanted)
    assert int(answer.error_code) == 31
