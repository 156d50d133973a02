"""This room knows the topics of the cluster, and the configs that hold for each on this broker.

What is set for a topic, this broker or the cluster arrives with the controller's rows and holds at once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from broker.log.outcomes import LogSettings
from muster.kernel import config_levels
from muster.kernel.config_kinds import FLAG, Ratio, SomeOf, WholeNumber, words_of
from muster.kernel.config_levels import Levels
from muster.kernel.topic_configs import (
    CLEANUP_POLICY,
    COMPRESSION_TYPE,
    DELETE_RETENTION_MS,
    FILE_DELETE_DELAY_MS,
    KEYS,
    MAX_COMPACTION_LAG_MS,
    MAX_MESSAGE_BYTES,
    MIN_CLEANABLE_DIRTY_RATIO,
    MIN_COMPACTION_LAG_MS,
    MIN_INSYNC_REPLICAS,
    MINUTE_MS,
    RACK_AWARE,
    REPLICA_SELECTOR,
    RETENTION_BYTES,
    RETENTION_MS,
    SEGMENT_BYTES,
    SEGMENT_MS,
    TIMESTAMP_AFTER_MAX_MS,
    TIMESTAMP_BEFORE_MAX_MS,
    TIMESTAMP_TYPE,
)

LOG_FIELDS: Final[Mapping[str, str]] = {
    CLEANUP_POLICY: "cleanup_policy",
    SEGMENT_BYTES: "segment_bytes",
    DELETE_RETENTION_MS: "delete_retention_ms",
    MIN_COMPACTION_LAG_MS: "min_compaction_lag_ms",
    MAX_COMPACTION_LAG_MS: "max_compaction_lag_ms",
    MIN_CLEANABLE_DIRTY_RATIO: "min_cleanable_dirty_ratio",
    SEGMENT_MS: "segment_ms",
    RETENTION_MS: "retention_ms",
    RETENTION_BYTES: "retention_bytes",
    MAX_MESSAGE_BYTES: "max_message_bytes",
    COMPRESSION_TYPE: "compression_type",
    TIMESTAMP_TYPE: "timestamp_type",
    TIMESTAMP_BEFORE_MAX_MS: "timestamp_before_max_ms",
    TIMESTAMP_AFTER_MAX_MS: "timestamp_after_max_ms",
}
"""Which field of LogSettings each config is: numbers, ratios, flags and words as they are, lists as sets."""


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic, what was set for it, and what holds."""

    name: str
    configs: Mapping[str, str]
    log: LogSettings
    min_insync_replicas: int


class KnownTopics:
    """Every topic by its id; `base` is what the environment says of logs, `file_delete_delay_ms` of those
    of deleted topics."""

    def __init__(self, base: LogSettings, file_delete_delay_ms: int = MINUTE_MS) -> None:
        self._base = base
        self.static = _texts(base)
        """What the environment of this broker says, by the one name of each config."""
        if file_delete_delay_ms != MINUTE_MS:
            self.static[FILE_DELETE_DELAY_MS] = str(file_delete_delay_ms)
        self.nodes_static: Mapping[str, str] = {}
        """The same of the nodes."""
        self.levels = Levels(static=self.static)
        """What holds for topics that set nothing."""
        self._topics: dict[UUID, KnownTopic] = {}

    @property
    def file_delete_delay_ms(self) -> int:
        """How long the logs of deleted topics are kept."""
        return config_levels.number(FILE_DELETE_DELAY_MS, {}, self.levels)

    @property
    def sends_to_nearest(self) -> bool:
        """Whether consumers are sent to a replica on their own rack."""
        return config_levels.effective(REPLICA_SELECTOR, {}, self.levels).value == RACK_AWARE

    def get(self, topic_id: UUID) -> KnownTopic | None:
        """The topic of this id."""
        return self._topics.get(topic_id)

    def know(self, topic_id: UUID, name: str, configs: Mapping[str, str]) -> bool:
        """A topic is new, or its configs are others; False: nothing of it holds differently."""
        before = self._topics.get(topic_id)
        known = self._topics[topic_id] = self._judged(name, configs)
        return before is None or (before.log, before.min_insync_replicas) != (
            known.log,
            known.min_insync_replicas,
        )

    def know_levels(
        self, broker: Mapping[str, str], cluster: Mapping[str, str], static: Mapping[str, str]
    ) -> Iterator[UUID]:
        """Other configs of this broker, of the cluster, or of the nodes' environment; who is concerned."""
        self.nodes_static = static
        levels = Levels(broker, cluster, {**self.static, **static})
        if levels == self.levels:
            return
        self.levels = levels
        for topic_id, topic in tuple(self._topics.items()):
            if self.know(topic_id, topic.name, topic.configs):
                yield topic_id

    def forget(self, topic_id: UUID) -> None:
        """It was deleted."""
        self._topics.pop(topic_id, None)

    def _judged(self, name: str, configs: Mapping[str, str]) -> KnownTopic:
        fields = {field: typed(key, configs, self.levels) for key, field in LOG_FIELDS.items()}
        least = config_levels.number(MIN_INSYNC_REPLICAS, configs, self.levels)
        return KnownTopic(name, configs, replace(self._base, **fields), least)


def typed(key: str, configs: Mapping[str, str], levels: Levels) -> Any:
    """The value that holds, as Python has it."""
    kind, value = KEYS[key].kind, config_levels.effective(key, configs, levels).value
    if isinstance(kind, WholeNumber):
        return int(value)
    if isinstance(kind, Ratio):
        return float(value)
    if isinstance(kind, SomeOf):
        return frozenset(words_of(value))
    return value == "true" if kind == FLAG else value


def _texts(base: LogSettings) -> dict[str, str]:
    """The settings of logs as configs; those that are as if nobody had said anything are left out."""
    texts = {key: _text(getattr(base, field)) for key, field in LOG_FIELDS.items()}
    return {key: text for key, text in texts.items() if text != KEYS[key].default}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)
