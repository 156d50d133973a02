"""This room says which value of a config holds: topic, broker, cluster, environment, default, in this order.

Everybody who obeys a config asks `effective`, `number` or `flag` here, and nobody keeps an order of his own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from muster.kernel.topic_configs import KEYS, ConfigKey, Scope


class Source(IntEnum):
    """Where a value comes from, by Kafka's numbers; the lowest that has one holds."""

    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    STATIC = 4
    DEFAULT = 5


class Effective(NamedTuple):
    """The value that holds, as text, and where it comes from; `name` is what it is called there."""

    value: str
    source: Source
    name: str


@dataclass(frozen=True, slots=True)
class Levels:
    """What is said for topics that set nothing.

    `broker` and `cluster` hold what was set while they run, by the names that brokers use; `static` what the
    environment says, by the one name of each config.
    """

    broker: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)


def effective(key: str, topic: Mapping[str, str], levels: Levels) -> Effective:
    """The value of the config of this one name for a topic, or for brokers where no topic has it.

    What an older release let in and nobody can read is passed over. Raises KeyError for no config.
    """
    return candidates(KEYS[key], topic, levels)[0]


def candidates(known: ConfigKey, topic: Mapping[str, str], levels: Levels) -> list[Effective]:
    """Every value that is said of it, the one that holds first; the last is the default."""
    name = known.broker_name or known.name
    said = []
    if known.name and known.name in topic:
        said.append(Effective(topic[known.name], Source.TOPIC, known.name))
    if known.broker_name:
        if Scope.BROKER in known.scopes and name in levels.broker:
            said.append(Effective(levels.broker[name], Source.BROKER, name))
        if name in levels.cluster:
            said.append(Effective(levels.cluster[name], Source.CLUSTER, name))
        # Nodes tell what they obey though nobody said it to them: then it is the default.
        if levels.static.get(known.key, known.default) != known.default:
            said.append(Effective(levels.static[known.key], Source.STATIC, name))
    kept = [one for one in said if known.kind.reads(one.value)]
    return [*kept, Effective(known.default, Source.DEFAULT, name)]


def number(key: str, topic: Mapping[str, str], levels: Levels) -> int:
    """The value of a config that is a whole number."""
    return int(effective(key, topic, levels).value)


def flag(key: str, topic: Mapping[str, str], levels: Levels) -> bool:
    """The value of a config that is true or false."""
    return effective(key, topic, levels).value == "true"


def said_by_all(statics: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What the environments of several processes say alike; where they differ, none of it."""
    found = [set(static.items()) for static in statics]
    return dict(set.intersection(*found)) if found else {}
