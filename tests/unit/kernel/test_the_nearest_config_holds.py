"""A config holds as it is set nearest: topic, broker, cluster, environment, default (Kafka's order)."""

import pytest

from muster.kernel.config_levels import Levels, Source, candidates, effective, flag, number, said_by_all
from muster.kernel.topic_configs import KEYS

TOPIC = {"retention.ms": "1"}
LEVELS = Levels(
    broker={"log.retention.ms": "2"}, cluster={"log.retention.ms": "3"}, static={"retention.ms": "4"}
)


@pytest.mark.parametrize(
    ("topic", "levels", "value", "source", "name"),
    [
        (TOPIC, LEVELS, "1", Source.TOPIC, "retention.ms"),
        ({}, LEVELS, "2", Source.BROKER, "log.retention.ms"),
        ({}, Levels(cluster=LEVELS.cluster, static=LEVELS.static), "3", Source.CLUSTER, "log.retention.ms"),
        ({}, Levels(static=LEVELS.static), "4", Source.STATIC, "log.retention.ms"),
        ({}, Levels(), "604800000", Source.DEFAULT, "log.retention.ms"),
    ],
)
def test_the_nearest_value_holds_and_says_where_it_is_set(
    topic: dict[str, str], levels: Levels, value: str, source: Source, name: str
) -> None:
    assert effective("retention.ms", topic, levels) == (value, source, name)


def test_every_value_that_is_said_is_told_nearest_first() -> None:
    said = candidates(KEYS["retention.ms"], TOPIC, LEVELS)
    assert [one.value for one in said] == ["1", "2", "3", "4", "604800000"]


def test_what_the_controller_decides_by_is_one_brokers_own_for_nobody() -> None:
    """Though an older release, or a hand in the database, set it there."""
    alone = Levels(broker={"min.insync.replicas": "3"})
    assert number("min.insync.replicas", {}, alone) == 1


def test_what_an_older_release_stored_is_read_where_it_can_be() -> None:
    assert number("segment.bytes", {"segment.bytes": "10"}, Levels()) == 10
    assert number("segment.bytes", {"segment.bytes": "ten"}, Levels()) == 1_073_741_824
    on = Levels(cluster={"unclean.leader.election.enable": "true"})
    assert flag("unclean.leader.election.enable", {}, on)
    assert not flag("unclean.leader.election.enable", {"unclean.leader.election.enable": "false"}, on)


def test_what_the_environment_says_as_by_default_is_the_default() -> None:
    """Nodes state what they obey though nobody said it to them."""
    levels = Levels(static={"min.insync.replicas": "1", "segment.bytes": "2097152"})
    assert effective("min.insync.replicas", {}, levels).source is Source.DEFAULT
    assert effective("segment.bytes", {}, levels).source is Source.STATIC


def test_only_what_all_were_started_with_alike_is_said_of_all() -> None:
    one, two = {"segment.bytes": "2097152", "max.message.bytes": "5"}, {"segment.bytes": "2097152"}
    assert said_by_all([one, two]) == {"segment.bytes": "2097152"}
    assert said_by_all([one, {"segment.bytes": "1048576"}]) == {}
    assert said_by_all([]) == {}
