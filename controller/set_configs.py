"""This room answers what is set for a topic, a broker or the cluster, what holds, and where it comes from."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from controller import configuration
from controller.models import Broker, BrokerConfig, Topic
from muster.kernel import config_descriptions
from muster.kernel.config_descriptions import Description
from muster.kernel.config_levels import Levels, said_by_all
from muster.messages.link.rows import EVERY_BROKER


class SetConfigs(NamedTuple):
    """What holds for one resource. `version` is that of the row by which it is changed; `tag` names all rows
    that what holds is made of."""

    descriptions: list[Description]
    version: int
    tag: str


def of_topic(topic: Topic) -> SetConfigs:
    """What holds for a topic, on brokers that set nothing themselves and were started alike."""
    common = for_all()
    return SetConfigs(
        config_descriptions.of_topic(topic.configs, common.levels),
        topic.metadata_version,
        f"{topic.topic_id}-{topic.metadata_version}.{common.tag}",
    )


def of_broker(broker: Broker) -> SetConfigs:
    """What holds for a broker that has registered, now or when it was last there."""
    rows = _set_for([broker.broker_id, EVERY_BROKER])
    own, cluster = rows[broker.broker_id], rows[EVERY_BROKER]
    levels = Levels(own.configs, cluster.configs, {**broker.static_configs, **_static()})
    return SetConfigs(
        config_descriptions.of_broker(levels),
        own.version,
        f"{own.version}.{cluster.version}.{broker.metadata_version}",
    )


def of_cluster() -> SetConfigs:
    """What holds where neither topic nor broker sets anything, on brokers that were started alike."""
    common = for_all()
    return SetConfigs(config_descriptions.of_cluster(common.levels), common.version, common.tag)


class ForAll(NamedTuple):
    """What holds for topics that set nothing; `version` is that of what the cluster sets."""

    levels: Levels
    version: int
    tag: str


def for_all() -> ForAll:
    """What the cluster sets, and what all live brokers and the nodes were started with alike."""
    cluster = _set_for([EVERY_BROKER])[EVERY_BROKER]
    live = list(Broker.objects.filter(fenced=False).values_list("static_configs", "metadata_version"))
    static = {**said_by_all(static for static, _ in live), **_static()}
    newest = max((version for _, version in live), default=0)
    # Whoever goes is one less, whoever comes is newer than all.
    tag = f"{cluster.version}.{newest}.{len(live)}"
    return ForAll(Levels(cluster=cluster.configs, static=static), cluster.version, tag)


class _Set(NamedTuple):
    configs: Mapping[str, str]
    version: int


def _set_for(broker_ids: list[int]) -> dict[int, _Set]:
    found = {
        row.broker_id: _Set(row.configs, row.metadata_version)
        for row in BrokerConfig.objects.filter(broker_id__in=broker_ids)
    }
    return {broker_id: found.get(broker_id, _Set({}, 0)) for broker_id in broker_ids}


@cache
def _static() -> Mapping[str, str]:
    """What the environment says of configs that nodes obey; web processes and nodes share it."""
    return configuration.from_environment().core.static_configs
