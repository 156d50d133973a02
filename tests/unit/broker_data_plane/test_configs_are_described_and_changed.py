"""DescribeConfigs tells what holds and where it comes from; what is to be set goes to the controller."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.core.cluster_view import ClusterView
from kafkaserver.admin import config_answers, configs
from kafkaserver.cluster_answers import BrokerView, MetadataView
from muster.kafkawire.api_table import ApiKey, build, part, request_class
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.configs import AlteredConfigs, Change, ConfigChange, ConfigResult
from muster.messages.link.rows import EVERY_BROKER, BrokerConfigs, BrokerRow
from tests.unit.broker_data_plane.planes import Broker, Client, broker, client

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET_FOR_TOPIC, SET_FOR_BROKER, SET_FOR_ALL, STARTED_WITH, DEFAULT = range(1, 6)


def describing(
    version: int,
    *resources: tuple[int, str],
    keys: tuple[str, ...] | None = None,
    synonyms: bool = False,
    documentation: bool = False,
) -> Any:
    shape = request_class(ApiKey.DESCRIBE_CONFIGS, version)
    resource = part(shape, "DescribeConfigsResource")
    return build(
        shape,
        resources=tuple(
            build(resource, resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name in resources
        ),
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


def changing(
    version: int, kind: int, name: str, *changes: tuple[str, int, str | None], only: bool = False
) -> Any:
    shape = request_class(ApiKey.INCREMENTAL_ALTER_CONFIGS, version)
    config = part(shape, "AlterableConfig")
    configs = tuple(config(name=key, config_operation=how, value=value) for key, how, value in changes)
    resource = part(shape, "AlterConfigsResource")
    named = resource(resource_type=kind, resource_name=name, configs=configs)
    return shape(resources=(named,), validate_only=only)


def replacing(version: int, kind: int, name: str, **configs: str | None) -> Any:
    shape = request_class(ApiKey.ALTER_CONFIGS, version)
    config = part(shape, "AlterableConfig")
    named = part(shape, "AlterConfigsResource")(
        resource_type=kind,
        resource_name=name,
        configs=tuple(config(name=key.replace("_", "."), value=value) for key, value in configs.items()),
    )
    return shape(resources=(named,), validate_only=False)


def entry(result: Any, name: str) -> Any:
    [found] = [one for one in result.configs if one.name == name]
    return found


async def described(who: Client, version: int, *resources: tuple[int, str], **how: Any) -> list[Any]:
    body = await who.ask(ApiKey.DESCRIBE_CONFIGS, version, describing(version, *resources, **how))
    return list(body.results)


def know(one: Broker, view: ClusterView) -> None:
    """The broker and all others have been told what `view` holds."""
    one.plane.know_levels(view.own_configs, view.cluster_configs, {"min.insync.replicas": "2"})


@pytest.mark.parametrize("version", range(1, 5))
async def test_a_topic_is_told_what_holds_and_where_it_comes_from(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, configs={"retention.ms": "1000"})
        one.known.configs[EVERY_BROKER] = BrokerConfigs(EVERY_BROKER, {"log.retention.bytes": "7"}, 1)
        know(one, one.known)
        [result] = await described(ann, version, (TOPIC, "orders"), synonyms=True, documentation=True)
        assert (int(result.error_code), result.resource_type, result.resource_name) == (0, TOPIC, "orders")
        assert result.error_message is None
        told = {each.name: (each.value, each.config_source) for each in result.configs}
        assert told["retention.ms"] == ("1000", SET_FOR_TOPIC)
        assert told["retention.bytes"] == ("7", SET_FOR_ALL)
        assert told["segment.bytes"] == ("10000", STARTED_WITH)
        assert told["min.insync.replicas"] == ("2", STARTED_WITH)
        assert told["cleanup.policy"] == ("delete", DEFAULT)
        synonyms = entry(result, "retention.ms").synonyms
        assert [(each.name, each.value, each.source) for each in synonyms] == [
            ("retention.ms", "1000", SET_FOR_TOPIC),
            ("log.retention.ms", "604800000", DEFAULT),
        ]
        assert entry(result, "leader.replication.throttled.replicas").synonyms == (), (
            "brokers have none of it"
        )
        assert not any(each.read_only or each.is_sensitive for each in result.configs)
        if version >= 3:
            assert entry(result, "retention.ms").config_type == 5
            assert "Segments" in entry(result, "retention.ms").documentation


@pytest.mark.parametrize("version", range(1, 5))
async def test_only_what_is_asked_for_is_told(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        [result] = await described(ann, version, (TOPIC, "orders"), keys=("segment.bytes", "no.such.key"))
        assert [(each.name, each.synonyms) for each in result.configs] == [("segment.bytes", ())]
        [result] = await described(ann, version, (TOPIC, "orders"), keys=())
        assert len(result.configs) > 5, "no key at all means every key"
        if version >= 3:
            assert {each.documentation for each in result.configs} == {None}
            [result] = await described(ann, version, (TOPIC, "orders"), documentation=True)
            assert all(each.documentation for each in result.configs)


async def test_a_broker_tells_of_itself_of_others_and_of_all(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.known.configs = {
            1: BrokerConfigs(1, {"log.retention.ms": "1"}, 1),
            2: BrokerConfigs(2, {"log.retention.ms": "2"}, 1),
            EVERY_BROKER: BrokerConfigs(EVERY_BROKER, {"log.retention.ms": "3"}, 1),
        }
        static = {"segment.bytes": "2097152"}
        one.known.brokers[2] = BrokerRow(2, 1, "two", {}, static_configs=static)
        know(one, one.known)
        names = ("1", "2", "", "9", "01", "+1")
        own, other, everyone, nobody, *odd = await described(
            ann, 4, *((BROKER, name) for name in names), synonyms=True
        )
        assert entry(own, "log.retention.ms").value == "1"
        assert entry(own, "log.segment.bytes").value == "10000"
        retention = entry(other, "log.retention.ms")
        assert [(each.value, each.source) for each in retention.synonyms] == [
            ("2", SET_FOR_BROKER),
            ("3", SET_FOR_ALL),
            ("604800000", DEFAULT),
        ]
        assert entry(other, "log.segment.bytes").value == "2097152"
        assert entry(other, "min.insync.replicas").read_only, "it is set for all brokers, or for none"
        assert [(each.name, each.value) for each in everyone.configs] == [("log.retention.ms", "3")]
        assert int(nobody.error_code) == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert [int(each.error_code) for each in odd] == [ErrorCode.INVALID_REQUEST] * 2


async def test_a_node_that_is_told_of_as_a_broker_has_what_the_cluster_sets(tmp_path: Path) -> None:
    """Kafka's tools ask about everybody that DescribeCluster names."""
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        know(one, one.known)
        one.plane.view = MetadataView.of("test", (), (), [BrokerView(10_001, "127.0.0.1", 9)])
        node, gone = await described(ann, 4, (BROKER, "10001"), (BROKER, "10002"))
        told = {each.name: (each.value, each.config_source) for each in node.configs}
        assert told == {
            "min.insync.replicas": ("2", STARTED_WITH),
            "unclean.leader.election.enable": ("false", DEFAULT),
            "delete.topic.enable": ("true", DEFAULT),
        }
        assert all(each.read_only for each in node.configs)
        assert int(gone.error_code) == ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize("version", range(1, 5))
async def test_each_resource_is_answered_by_itself(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        asked = ((TOPIC, "clicks"), (LOGGER, "1"), (METRICS, "m"), (GROUP, "g"), (99, ""), (TOPIC, "orders"))
        results = await described(ann, version, *asked)
        assert [(each.resource_type, each.resource_name) for each in results] == list(asked)
        refused = [int(each.error_code) for each in results[:-1]]
        assert refused == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, *[ErrorCode.INVALID_REQUEST] * 4]
        assert all(each.error_message and not each.configs for each in results[:-1])
        assert int(results[-1].error_code) == 0


@pytest.mark.parametrize("name", ["", ".", "..", "or/ders", "órdenes", "o" * 250])
async def test_a_name_that_no_topic_can_have_is_told_apart_from_one_that_none_has(
    tmp_path: Path, name: str
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        impossible, orders = await described(ann, 4, (TOPIC, name), (TOPIC, "orders"))
        assert int(impossible.error_code) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert impossible.error_message and not impossible.configs
        assert int(orders.error_code) == 0


async def test_ten_thousand_topics_are_told_apart_and_in_order(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1, configs={"retention.ms": "1000"})
        names = ["orders" if number % 2 else f"nothing-{number}" for number in range(10_000)]
        results = await described(ann, 4, *((TOPIC, name) for name in names))
        assert [each.resource_name for each in results] == names
        assert {entry(each, "retention.ms").value for each in results[1::2]} == {"1000"}


async def test_an_answer_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_answers, "MOST_ANSWER_BYTES", 2_000)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.obey(1)
        results = await described(ann, 4, *[(TOPIC, "orders")] * 10)
        codes = [int(each.error_code) for each in results]
        assert codes == sorted(codes) and codes[0] == 0
        assert codes[-1] == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("version", range(2))
async def test_changes_are_decided_by_the_controller_resource_by_resource(
    tmp_path: Path, version: int
) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.configured = (
            ConfigResult(type=TOPIC, name="orders", error=ErrorCode.INVALID_CONFIG, text="no"),
        )
        changes = (("a", 0, "1"), ("b", 1, None), ("c", 2, "2"), ("d", 3, "3"))
        request = changing(version, TOPIC, "orders", *changes, only=True)
        body = await ann.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request)
        [told] = body.responses
        assert (told.resource_type, told.resource_name) == (TOPIC, "orders")
        assert (int(told.error_code), told.error_message) == (ErrorCode.INVALID_CONFIG, "no")
        [wish] = one.controller.altered
        assert wish.validate_only
        assert wish.resources == (
            AlteredConfigs(
                type=TOPIC,
                name="orders",
                changes=(
                    ConfigChange("a", Change.SET, "1"),
                    ConfigChange("b", Change.DELETE),
                    ConfigChange("c", Change.APPEND, "2"),
                    ConfigChange("d", Change.SUBTRACT, "3"),
                ),
            ),
        )


@pytest.mark.parametrize("version", range(3))
async def test_the_old_request_replaces_the_whole(tmp_path: Path, version: int) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.configured = (ConfigResult(type=BROKER, name="", version=0),)
        body = await ann.ask(
            ApiKey.ALTER_CONFIGS, version, replacing(version, BROKER, "", log_retention_ms="5", x=None)
        )
        assert [int(each.error_code) for each in body.responses] == [0]
        [wish] = one.controller.altered
        changes = (ConfigChange("log.retention.ms", Change.SET, "5"), ConfigChange("x", Change.SET, None))
        assert wish.resources == (AlteredConfigs(type=BROKER, name="", changes=changes, is_whole=True),)


async def test_what_is_no_change_is_refused_here(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        for kind, how in ((TOPIC, 4), (LOGGER, 0), (METRICS, 0), (GROUP, 0), (1, 0)):
            request = changing(1, kind, "1", ("a", how, "1"))
            body = await ann.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
            [told] = body.responses
            assert int(told.error_code) == ErrorCode.INVALID_REQUEST
            assert told.error_message
        assert one.controller.altered == []


async def test_without_a_link_nothing_is_changed(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        body = await ann.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, changing(1, TOPIC, "orders", ("a", 0, "1")))
        assert [int(each.error_code) for each in body.responses] == [ErrorCode.NOT_CONTROLLER]


async def test_a_change_is_answered_when_this_broker_obeys_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks next at this door must not be told what was before."""
    monkeypatch.setattr(configs, "APPLIED_TIMEOUT_S", 60.0)
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.configured = (ConfigResult(type=TOPIC, name="orders", version=8),)
        one.client.applied(7)
        ann.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, changing(1, TOPIC, "orders", ("a", 0, "1")))
        assert await ann.is_quiet()
        one.client.applied(8)
        body = await ann.hear()
        assert [int(each.error_code) for each in body.responses] == [0]
        assert not one.client._configs._waiting


async def test_a_broker_that_hears_nothing_answers_all_the_same(tmp_path: Path) -> None:
    async with broker(tmp_path) as one, client(one.client_port) as ann:
        one.controller.configured = (ConfigResult(type=TOPIC, name="orders", version=8),)
        async with asyncio.timeout(10):
            body = await ann.ask(
                ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, changing(1, TOPIC, "orders", ("a", 0, "1"))
            )
        assert [int(each.error_code) for each in body.responses] == [0]
