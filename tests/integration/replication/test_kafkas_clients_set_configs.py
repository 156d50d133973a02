"""Kafka's own tools and admin clients of three families set and describe configs, at broker and node."""

import re
import warnings
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tests.acceptance.kafka_tools import Said, Tools
from tests.acceptance.members import missing
from tests.integration.replication.cluster import Cluster

with warnings.catch_warnings():
    # kafka-python reads its schemas by an old way of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.admin
    import kafka.errors

pytestmark = [
    pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning"),
    pytest.mark.timeout(400),
]
needs_java = pytest.mark.skipif(bool(missing("java")), reason=missing("java"))


def door(cluster: Cluster, kind: str) -> str:
    """The address of a broker, or of a node."""
    if kind == "broker":
        return cluster.bootstrap.rpartition(",")[2]
    (address,) = cluster.query("SELECT addresses ->> 'kafka' FROM node_session WHERE NOT ended")[0]
    return str(address)


@pytest.fixture(scope="module")
def process(shared: Cluster) -> Iterator[Tools]:
    with Tools(shared.bootstrap) as tools:
        yield tools


@pytest.fixture(params=["broker", "node"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(shared: Cluster, kind: str) -> str:
    return door(shared, kind)


@pytest.fixture
def tools(process: Tools, address: str) -> Tools:
    return process.at(address)


def done(said: Said) -> Said:
    assert said.status == 0, said.text
    return said


def told(said: Said) -> dict[str, str]:
    """What kafka-configs --describe printed, key by key: value and synonyms."""
    lines = done(said).text.splitlines()
    found = (re.match(r"\s+([a-z.]+)=(\S*) sensitive=false synonyms=(\{.*\})", line) for line in lines)
    return {one[1]: f"{one[2]} {one[3]}" for one in found if one is not None}


@needs_java
def test_the_tool_sets_describes_and_unsets_configs_of_a_topic(
    shared: Cluster, tools: Tools, topic: str
) -> None:
    done(tools.run("TopicCommand", "--create", "--topic", topic, "--config", "retention.ms=7200000"))
    of = ("--entity-type", "topics", "--entity-name", topic)
    said = tools.configs("--describe", *of)
    assert f"Dynamic configs for topic {topic} are:" in said.text
    assert told(said) == {
        "retention.ms": "7200000 {DYNAMIC_TOPIC_CONFIG:retention.ms=7200000,"
        " DEFAULT_CONFIG:log.retention.ms=604800000}"
    }
    said = done(
        tools.configs("--alter", "--add-config", "max.message.bytes=500,cleanup.policy=[delete]", *of)
    )
    assert f"Completed updating config for topic {topic}." in said.text
    shared.await_true(lambda: told(tools.configs("--describe", *of)).keys() >= {"max.message.bytes"}, "set")
    everything = told(tools.configs("--describe", "--all", *of))
    assert everything["max.message.bytes"].startswith("500 {DYNAMIC_TOPIC_CONFIG:")
    static, default = "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG"
    synonyms = f"{static}:log.segment.bytes=1048576, {default}:log.segment.bytes=1073741824"
    assert everything["segment.bytes"] == f"1048576 {{{synonyms}}}"
    head = done(tools.run("TopicCommand", "--describe", "--topic", topic)).text.splitlines()[0]
    assert "max.message.bytes=500" in head and "retention.ms=7200000" in head
    done(tools.configs("--alter", "--delete-config", "max.message.bytes,retention.ms,cleanup.policy", *of))
    shared.await_true(lambda: told(tools.configs("--describe", *of)) == {}, "nothing is set any more")
    for change, why in (
        ("no.such.key=1", "no.such.key is not a config of a topic"),
        ("retention.ms=soon", "soon"),
    ):
        refused = tools.configs("--alter", "--add-config", change, *of)
        assert refused.status == 1 and why in refused.text, refused.text


@needs_java
def test_the_tool_sets_what_a_broker_and_what_all_brokers_do(shared: Cluster, tools: Tools) -> None:
    one = ("--entity-type", "brokers", "--entity-name", "1")
    everyone = ("--entity-type", "brokers", "--entity-default")
    done(tools.configs("--alter", "--add-config", "log.retention.bytes=5000000", *everyone))
    said = done(tools.configs("--alter", "--add-config", "log.retention.bytes=6000000", *one))
    assert "Completed updating config for broker 1." in said.text
    set_for_one, set_for_all = (
        "DYNAMIC_BROKER_CONFIG:log.retention.bytes=6000000",
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.bytes=5000000",
    )
    default = "DEFAULT_CONFIG:log.retention.bytes=-1"
    shared.await_true(
        lambda: (
            told(tools.configs("--describe", *one))
            == {"log.retention.bytes": f"6000000 {{{set_for_one}, {set_for_all}, {default}}}"}
        ),
        "broker 1 says what is set for it",
    )
    assert told(tools.configs("--describe", *everyone)) == {
        "log.retention.bytes": f"5000000 {{{set_for_all}, {default}}}"
    }
    all_of_it = told(tools.configs("--describe", "--all", *one))
    assert all_of_it["log.segment.bytes"].startswith("1048576 {STATIC_BROKER_CONFIG:")
    refused = tools.configs("--alter", "--add-config", "min.insync.replicas=2", *one)
    assert refused.status == 1 and "only of a cluster, topic" in refused.text, refused.text
    for of in (one, everyone):
        done(tools.configs("--alter", "--delete-config", "log.retention.bytes", *of))
    shared.await_true(lambda: told(tools.configs("--describe", *everyone)) == {}, "nothing is set any more")


@needs_java
def test_the_tool_describes_every_topic_and_everybody(shared: Cluster, tools: Tools, topic: str) -> None:
    done(tools.run("TopicCommand", "--create", "--topic", topic, "--config", "retention.ms=7200000"))
    said = done(tools.configs("--describe", "--entity-type", "topics"))
    assert f"Dynamic configs for topic {topic} are:" in said.text
    said = done(tools.configs("--describe", "--entity-type", "brokers"))
    for who in ("broker 1", "broker 2", "broker 3", "broker 10001"):
        assert f"Dynamic configs for {who} are:" in said.text, said.text
    assert "Default configs for brokers in the cluster are:" in said.text
    said = done(tools.configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", "10001"))
    assert "min.insync.replicas=1" in said.text


@needs_java
def test_what_has_no_configs_here_is_refused_with_a_reason(tools: Tools) -> None:
    for kind, name, change in (
        ("broker-loggers", "1", "kafka.server=DEBUG"),
        ("groups", "readers", "consumer.session.timeout.ms=50000"),
        ("client-metrics", "all", "interval.ms=1000"),
    ):
        refused = tools.configs(
            "--alter", "--add-config", change, "--entity-type", kind, "--entity-name", name
        )
        assert refused.status == 1, refused.text


@needs_java
def test_topics_with_overrides_and_near_their_min_insync_are_found(
    shared: Cluster, tools: Tools, topic: str
) -> None:
    words = ("--create", "--topic", topic, "--replication-factor", "3", "--config", "min.insync.replicas=3")
    done(tools.run("TopicCommand", *words))

    def listed(which: str) -> bool:
        return topic in done(tools.run("TopicCommand", "--describe", which)).text

    shared.await_true(lambda: listed("--topics-with-overrides"), "it sets something itself")
    shared.await_true(lambda: listed("--at-min-isr-partitions"), "not one of its replicas may go")
    # A busy machine may drop a follower from the ISR for a moment: it comes back.
    shared.await_true(lambda: not listed("--under-min-isr-partitions"), "all of its replicas are in sync")


def test_librdkafka_sets_and_describes(address: str, shared: Cluster, topic: str) -> None:
    shared.create_topic(topic, 1)
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    change = ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)
    asked = ConfigResource(ResourceType.TOPIC, topic)

    def retention() -> str | None:
        value: str | None = admin.describe_configs([asked])[asked].result(30)["retention.ms"].value
        return value

    shared.await_true(lambda: retention() == "7200000", "it is told")
    # The old request: what it does not name is unset.
    whole = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.bytes": "1000000"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        admin.alter_configs([whole])[whole].result(30)
    shared.await_true(lambda: retention() == "604800000", "it is unset")


def test_kafka_python_sets_and_describes(address: str, shared: Cluster, topic: str) -> None:
    shared.create_topic(topic, 1)
    admin = kafka.KafkaAdminClient(bootstrap_servers=address)
    try:
        kind = kafka.admin.ConfigResourceType.TOPIC
        admin.alter_configs([kafka.admin.ConfigResource(kind, topic, {"retention.ms": "7200000"})])

        def set_here() -> dict[str, str]:
            asked = [kafka.admin.ConfigResource(kind, topic, None)]
            found = admin.describe_configs(asked, config_filter="all")["topic"][topic]
            dynamic = "DYNAMIC_TOPIC_CONFIG"
            return {key: one["value"] for key, one in found.items() if one["config_source"] == dynamic}

        shared.await_true(lambda: set_here() == {"retention.ms": "7200000"}, "it is told")
        broker = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.BROKER, "2", None)
        found = admin.describe_configs([broker], config_filter="all")["broker"]["2"]
        assert found["log.segment.bytes"]["value"] == "1048576"
    finally:
        admin.close()
