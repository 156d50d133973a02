"""This room shows AlterConfigs and IncrementalAlterConfigs: refusals (conformance 210), rows, who is told."""

import pytest

from controller.core.draft import ClusterDecision
from controller.core.events import LinkClosed
from controller.core.records import BrokerConfigsChanged, ConfigChanged, TopicChanged, TurnStamped
from controller.core.state import ClusterState, after_records
from controller.outcomes import Result
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.configs import (
    AlterConfigs,
    AlteredConfigs,
    Change,
    ConfigChange,
    ConfigResult,
    ConfigResults,
)
from muster.messages.link.from_broker import DeleteTopics, NamedTopic
from muster.messages.link.rows import NO_LEADER, BrokerConfigs
from muster.messages.link.to_broker import Changes, HelloAccepted, SnapshotChunk, TopicResults
from tests.unit.controller_core.stage import ORDERS, Cluster, heard, hello, row, said

TOPIC, BROKER, LOGGER = 2, 4, 8


def put(key: str, value: str | None) -> ConfigChange:
    return ConfigChange(key, Change.SET, value)


def cluster_of_orders(**configs: str) -> Cluster:
    stored = {name.replace("_", "."): value for name, value in configs.items()}
    return Cluster([row(0, (1, 2, 3), 1, (1, 2, 3))], configs=stored)


def wish(*resources: AlteredConfigs, validate_only: bool = False) -> AlterConfigs:
    return AlterConfigs(correlation_id=4, resources=resources, validate_only=validate_only, principal="ann")


def orders(*changes: ConfigChange, is_whole: bool = False, expected: int | None = None) -> AlteredConfigs:
    return AlteredConfigs(
        type=TOPIC, name="orders", changes=changes, is_whole=is_whole, expected_version=expected
    )


def broker(name: str, *changes: ConfigChange) -> AlteredConfigs:
    return AlteredConfigs(type=BROKER, name=name, changes=changes)


def asked(cluster: Cluster, frame: AlterConfigs) -> tuple[tuple[ConfigResult, ...], ClusterDecision]:
    decision = cluster.turn(heard("link-1a", frame))
    [answer] = [one for one in said(decision, "link-1a") if isinstance(one, ConfigResults)]
    assert answer.correlation_id == 4
    return answer.results, decision


def configs_of_orders(cluster: Cluster) -> dict[str, str]:
    return cluster.state.rows.topics[ORDERS].configs


def test_a_key_is_set_for_a_topic_and_every_broker_hears_of_it_in_that_turn() -> None:
    cluster = cluster_of_orders(segment_bytes="2097152")
    before = cluster.state.rows
    [result], decision = asked(cluster, wish(orders(put("retention.ms", "1000"))))

    assert (result.error, result.version) == (ErrorCode.NONE, before.metadata_version + 1)
    assert configs_of_orders(cluster) == {"segment.bytes": "2097152", "retention.ms": "1000"}
    assert after_records(before, decision.records) == cluster.state.rows, "the records say it all"
    for link in ("link-1a", "link-2a", "link-3a"):
        [changes] = [one for one in said(decision, link) if isinstance(one, Changes)]
        assert changes.topics == (cluster.state.rows.topics[ORDERS],)


def test_the_journal_keeps_what_each_key_was_and_is_and_who_asked() -> None:
    cluster = cluster_of_orders(retention_ms="1", segment_bytes="2097152")
    changes = (put("retention.ms", "2"), ConfigChange("segment.bytes", Change.DELETE))
    _, decision = asked(cluster, wish(orders(*changes)))

    assert [one for one in decision.records if isinstance(one, ConfigChanged)] == [
        ConfigChanged("orders", "retention.ms", "1", "2", "ann"),
        ConfigChanged("orders", "segment.bytes", "2097152", None, "ann"),
    ]


def test_what_is_so_already_is_no_turn_and_keeps_its_version() -> None:
    cluster = cluster_of_orders(retention_ms="1")
    unset = ConfigChange("no.such.key", Change.DELETE)
    [result], decision = asked(cluster, wish(orders(put("retention.ms", "1"), unset)))

    assert (result.error, result.version) == (ErrorCode.NONE, 0)
    assert decision.records == ()


def test_a_key_that_an_older_release_let_in_can_be_deleted() -> None:
    cluster = cluster_of_orders(flush_ms="1")
    [result], _ = asked(cluster, wish(orders(ConfigChange("flush.ms", Change.DELETE))))
    assert (result.error, configs_of_orders(cluster)) == (ErrorCode.NONE, {})


def test_the_old_request_unsets_what_it_does_not_name() -> None:
    cluster = cluster_of_orders(retention_ms="1", segment_bytes="2097152")
    [result], _ = asked(cluster, wish(orders(put("retention.bytes", "7"), is_whole=True)))
    assert (result.error, configs_of_orders(cluster)) == (ErrorCode.NONE, {"retention.bytes": "7"})


def test_commas_behind_an_added_word_say_nothing() -> None:
    cluster = cluster_of_orders()
    for stated, policy in ((",", "delete"), ("compact,", "delete,compact")):
        [result], _ = asked(cluster, wish(orders(ConfigChange("cleanup.policy", Change.APPEND, stated))))
        told = configs_of_orders(cluster)["cleanup.policy"]
        assert (result.error, told) == (ErrorCode.NONE, policy)


def test_words_are_added_to_a_list_and_taken_from_it() -> None:
    cluster = cluster_of_orders()
    [result], _ = asked(cluster, wish(orders(ConfigChange("cleanup.policy", Change.APPEND, "delete"))))
    assert (result.error, configs_of_orders(cluster)) == (ErrorCode.NONE, {"cleanup.policy": "delete"})

    [result], _ = asked(cluster, wish(orders(ConfigChange("cleanup.policy", Change.SUBTRACT, "delete"))))
    assert result.error is ErrorCode.INVALID_CONFIG, "a log is cleaned in one way at least"


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (AlteredConfigs(type=TOPIC, name="clicks", changes=()), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (AlteredConfigs(type=TOPIC, name="or/ders", changes=()), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (AlteredConfigs(type=TOPIC, name="", changes=()), ErrorCode.INVALID_REQUEST),
        (AlteredConfigs(type=LOGGER, name="1", changes=()), ErrorCode.INVALID_REQUEST),
        (broker("one"), ErrorCode.INVALID_REQUEST),
        (broker("01"), ErrorCode.INVALID_REQUEST),
        (broker("9"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (broker("1", put("min.insync.replicas", "2")), ErrorCode.INVALID_CONFIG),
        (broker("1", put("retention.ms", "2")), ErrorCode.INVALID_CONFIG),
        (broker("", put("listeners", "2")), ErrorCode.INVALID_CONFIG),
        (orders(put("no.such.config", "1")), ErrorCode.INVALID_CONFIG),
        (orders(put("retention.ms", "-2")), ErrorCode.INVALID_CONFIG),
        (orders(put("retention.ms", None)), ErrorCode.INVALID_REQUEST),
        (orders(put("retention.ms", "1"), put("retention.ms", "2")), ErrorCode.INVALID_REQUEST),
        (orders(ConfigChange("retention.ms", Change.APPEND, "1")), ErrorCode.INVALID_CONFIG),
        (orders(ConfigChange("cleanup.policy", Change.APPEND, "")), ErrorCode.INVALID_CONFIG),
        (orders(ConfigChange("cleanup.policy", Change.APPEND, " ")), ErrorCode.INVALID_CONFIG),
        (orders(put("segment.ms", "59999")), ErrorCode.INVALID_CONFIG),
        (orders(ConfigChange("retention.ms", Change.SUBTRACT, "1")), ErrorCode.INVALID_CONFIG),
        (orders(put("retention.ms", "1"), expected=4), ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_what_cannot_be_is_refused_and_the_other_resources_go_on(
    resource: AlteredConfigs, error: ErrorCode
) -> None:
    cluster = cluster_of_orders()
    good = broker("2", put("log.retention.ms", "5"))
    results, _ = asked(cluster, wish(resource, good))

    assert [one.error for one in results] == [error, ErrorCode.NONE]
    assert results[0].text
    assert configs_of_orders(cluster) == {}
    assert cluster.state.rows.configs[2].configs == {"log.retention.ms": "5"}


def test_a_resource_that_is_named_twice_is_refused_both_times() -> None:
    cluster = cluster_of_orders()
    twice = orders(put("retention.ms", "1"))
    results, decision = asked(cluster, wish(twice, twice))
    assert [one.error for one in results] == [ErrorCode.INVALID_REQUEST] * 2
    assert decision.records == ()


def test_a_resource_is_changed_as_a_whole_or_not_at_all() -> None:
    cluster = cluster_of_orders()
    [result], decision = asked(cluster, wish(orders(put("retention.ms", "1"), put("segment.bytes", "1"))))
    assert result.error is ErrorCode.INVALID_CONFIG and decision.records == ()


def test_a_wish_that_is_only_validated_changes_nothing() -> None:
    cluster = cluster_of_orders()
    good, bad = orders(put("retention.ms", "1")), broker("", put("log.retention.ms", "x"))
    results, decision = asked(cluster, wish(good, bad, validate_only=True))
    assert [one.error for one in results] == [ErrorCode.NONE, ErrorCode.INVALID_CONFIG]
    assert decision.records == ()


def test_who_looked_at_the_present_version_may_change_it() -> None:
    cluster = cluster_of_orders()
    [first], _ = asked(cluster, wish(orders(put("retention.ms", "1"), expected=0)))
    [second], _ = asked(cluster, wish(orders(put("retention.ms", "2"), expected=first.version)))
    [late], _ = asked(cluster, wish(orders(put("retention.ms", "3"), expected=first.version)))

    assert (second.error, late.error) == (ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION)
    assert f"version {second.version}" in late.text and f"{first.version} was looked at" in late.text
    assert configs_of_orders(cluster) == {"retention.ms": "2"}


@pytest.mark.parametrize(
    "changes", [(put("retention.ms", "1"), put("retention.ms", "2")), (put("retention.ms", None),)]
)
def test_names_stand_in_a_refusal_as_they_are_written(changes: tuple[ConfigChange, ...]) -> None:
    """A refusal is told as a sentence: it must not begin with a name, which would get a capital letter."""
    results, _ = asked(cluster_of_orders(), wish(orders(*changes)))
    late, _ = asked(cluster_of_orders(), wish(orders(put("retention.ms", "1"), expected=4)))
    told = [Result("topic", "orders", error=one.error, text=one.text).words for one in (*results, *late)]
    assert told[0].startswith("Config retention.ms is ") and told[1].startswith("Topic orders is at version ")


def test_configs_of_a_broker_and_of_the_cluster_are_rows_that_every_broker_hears_of() -> None:
    cluster = cluster_of_orders()
    one, everybody = broker("1", put("log.retention.ms", "1")), broker("", put("log.retention.ms", "2"))
    before = cluster.state.rows
    _, decision = asked(cluster, wish(one, everybody))

    version = cluster.state.rows.metadata_version
    rows = (
        BrokerConfigs(1, {"log.retention.ms": "1"}, version),
        BrokerConfigs(0, {"log.retention.ms": "2"}, version),
    )
    assert decision.records[:3] == (TurnStamped(version), *map(BrokerConfigsChanged, rows))
    assert after_records(before, decision.records) == cluster.state.rows
    [changes] = [frame for frame in said(decision, "link-3a") if isinstance(frame, Changes)]
    assert changes.configs == rows

    welcomed = cluster.turn(LinkClosed("link-2a"), hello(2))
    [chunk] = [frame for frame in said(welcomed, "link-2a") if isinstance(frame, SnapshotChunk)]
    assert sorted(chunk.configs, key=lambda row: -row.broker_id) == list(rows)


def test_a_row_that_sets_nothing_any_more_keeps_its_version_for_whoever_looked() -> None:
    cluster = cluster_of_orders()
    asked(cluster, wish(broker("1", put("log.retention.ms", "1"))))
    [result], _ = asked(cluster, wish(broker("1", ConfigChange("log.retention.ms", Change.DELETE))))
    assert cluster.state.rows.configs[1] == BrokerConfigs(1, {}, result.version)


def test_min_insync_of_the_cluster_is_the_floor_of_elections_and_is_told_to_brokers() -> None:
    cluster = Cluster([row(0, (1, 2, 3), 1, (1, 2))])
    asked(cluster, wish(broker("", put("min.insync.replicas", "2"))))
    cluster.turn(LinkClosed("link-2a"))
    cluster.later(60_000)
    for one in (1, 3):
        cluster.turn(LinkClosed(f"link-{one}a"), hello(one))
    welcome = said(cluster.turn(LinkClosed("link-1a"), hello(1)), "link-1a")

    assert cluster.partition().isr == (1, 2), "broker 2 is dead, and the floor keeps its seat"
    accepted = next(frame for frame in welcome if isinstance(frame, HelloAccepted))
    assert accepted.min_insync_replicas == 2
    assert accepted.static_configs["min.insync.replicas"] == "1"


def _leaderless() -> ClusterState:
    return Cluster([row(0, (1, 2), NO_LEADER, (2,))], brokers=1).state


@pytest.mark.parametrize(
    "resource",
    [
        orders(put("unclean.leader.election.enable", "true")),
        broker("", put("unclean.leader.election.enable", "true")),
    ],
)
def test_whoever_allows_unclean_elections_gets_one_where_nobody_leads(resource: AlteredConfigs) -> None:
    cluster = Cluster(brokers=1)
    cluster.state = _leaderless()
    asked(cluster, wish(resource))
    assert (cluster.partition().leader, cluster.partition().isr) == (1, (1,))


def test_topics_are_not_deleted_while_the_cluster_does_not_allow_it() -> None:
    cluster = cluster_of_orders()
    asked(cluster, wish(broker("", put("delete.topic.enable", "false"))))
    frame = DeleteTopics(correlation_id=4, topics=(NamedTopic(name="orders"), NamedTopic(name="clicks")))
    [answer] = [
        one for one in said(cluster.turn(heard("link-1a", frame)), "link-1a") if isinstance(one, TopicResults)
    ]
    assert [one.error for one in answer.topics] == [
        ErrorCode.TOPIC_DELETION_DISABLED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert ORDERS in cluster.state.rows.topics


def test_a_topic_has_the_version_of_the_turn_that_changed_it() -> None:
    cluster = cluster_of_orders()
    _, decision = asked(cluster, wish(orders(put("retention.ms", "1"))))
    [changed] = [one for one in decision.records if isinstance(one, TopicChanged)]
    assert changed.row.version == cluster.state.rows.metadata_version


def test_to_unset_something_of_a_node_is_done_already_and_nothing_is_set_there() -> None:
    """Clients are told of nodes as of brokers, and Kafka's tool clears its throttles at all of them."""
    cluster = cluster_of_orders()
    [unset, kept] = asked(
        cluster,
        wish(
            broker("10001", ConfigChange("leader.replication.throttled.rate", Change.DELETE)),
            broker("10002", put("leader.replication.throttled.rate", "5")),
        ),
    )[0]
    assert (unset.error, kept.error) == (ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED)
