"""This room tells people every config of a topic: its value, where that comes from, and what it is about."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller import set_configs
from controller.models import Topic
from muster.kernel import config_levels
from muster.kernel.config_levels import Levels, Source
from muster.kernel.topic_configs import NAMED, Scope

_SOURCES: Final = {
    Source.TOPIC: "this topic",
    Source.BROKER: "broker",
    Source.CLUSTER: "cluster",
    Source.STATIC: "environment",
    Source.DEFAULT: "default",
}


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One config of a topic.

    `set_to`: what is set for the topic, "": nothing; `otherwise`: what holds where nothing is set for it.
    """

    name: str
    value: str
    source: str
    set_to: str
    otherwise: str
    takes: str
    meaning: str

    @property
    def is_set(self) -> bool:
        return self.source == _SOURCES[Source.TOPIC]


def rows_of_topic(topic: Topic) -> list[KeyRow]:
    """Every config that a topic may have, by its name."""
    levels = set_configs.for_all().levels
    return [_row(name, topic.configs, levels) for name in sorted(NAMED[Scope.TOPIC])]


def _row(name: str, configs: Mapping[str, str], levels: Levels) -> KeyRow:
    known = NAMED[Scope.TOPIC][name]
    holds = config_levels.effective(known.key, configs, levels)
    otherwise = config_levels.effective(known.key, {}, levels)
    return KeyRow(
        name,
        holds.value,
        _SOURCES[holds.source],
        configs.get(name, ""),
        otherwise.value,
        str(known.kind),
        known.documentation,
    )
