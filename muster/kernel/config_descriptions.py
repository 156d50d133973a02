"""This room describes configs to people and tools: what holds, where it comes from, what else is said."""

from collections.abc import Mapping
from typing import NamedTuple

from muster.kernel.config_levels import Effective, Levels, Source, candidates
from muster.kernel.topic_configs import KEYS, ConfigKey, Scope


class Description(NamedTuple):
    """One config of one resource, by the name that it has there."""

    name: str
    known: ConfigKey
    said: tuple[Effective, ...]
    """Every value that is said of it, the one that holds first: Kafka's synonyms."""
    is_read_only: bool
    """It holds here, and is set elsewhere: for the whole cluster, not for one broker."""

    @property
    def value(self) -> str:
        """The value that holds."""
        return self.said[0].value

    @property
    def source(self) -> Source:
        """Where it comes from."""
        return self.said[0].source


def of_topic(configs: Mapping[str, str], levels: Levels) -> list[Description]:
    """What holds for a topic that sets `configs`, where topics that set nothing have `levels`."""
    return [
        Description(one.name, one, tuple(candidates(one, configs, levels)), is_read_only=False)
        for one in _obeyed()
        if Scope.TOPIC in one.scopes
    ]


def of_broker(levels: Levels) -> list[Description]:
    """What holds for a broker."""
    return [
        Description(one.broker_name, one, tuple(candidates(one, {}, levels)), Scope.BROKER not in one.scopes)
        for one in _obeyed()
        if one.broker_name
    ]


def of_node(levels: Levels) -> list[Description]:
    """What holds for a node: what the controller obeys, which is set for the whole cluster."""
    return [
        Description(one.broker_name, one, tuple(candidates(one, {}, levels)), is_read_only=True)
        for one in _obeyed()
        if Scope.CLUSTER in one.scopes and Scope.BROKER not in one.scopes
    ]


def of_cluster(levels: Levels) -> list[Description]:
    """What holds for brokers and topics that set nothing themselves."""
    return [
        Description(one.broker_name, one, tuple(candidates(one, {}, levels)), is_read_only=False)
        for one in _obeyed()
        if Scope.CLUSTER in one.scopes
    ]


def _obeyed() -> list[ConfigKey]:
    return [one for one in KEYS.values() if one.is_obeyed]
