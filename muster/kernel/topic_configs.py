"""This room is the one table of configs: key, bounds, default, meaning, what brokers call it, who may set it.

A key that nothing obeys is no key here and is refused by its name; one that is declared before somebody
obeys it says so (`is_obeyed`) and is refused as long as it does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from muster.kernel.config_kinds import (
    FLAG,
    INT32_MAX,
    INT64_MAX,
    BadConfig,
    Kind,
    OneOf,
    Ratio,
    Replicas,
    SomeOf,
    WholeNumber,
)

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"
CLEANUP_POLICY: Final = "cleanup.policy"
COMPRESSION_TYPE: Final = "compression.type"
RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
SEGMENT_BYTES: Final = "segment.bytes"
SEGMENT_MS: Final = "segment.ms"
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
TIMESTAMP_TYPE: Final = "message.timestamp.type"
TIMESTAMP_BEFORE_MAX_MS: Final = "message.timestamp.before.max.ms"
TIMESTAMP_AFTER_MAX_MS: Final = "message.timestamp.after.max.ms"
MIN_CLEANABLE_DIRTY_RATIO: Final = "min.cleanable.dirty.ratio"
MIN_COMPACTION_LAG_MS: Final = "min.compaction.lag.ms"
MAX_COMPACTION_LAG_MS: Final = "max.compaction.lag.ms"
DELETE_RETENTION_MS: Final = "delete.retention.ms"
FILE_DELETE_DELAY_MS: Final = "file.delete.delay.ms"
LEADER_THROTTLED_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_THROTTLED_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_THROTTLED_RATE: Final = "follower.replication.throttled.rate"
DELETE_TOPIC_ENABLE: Final = "delete.topic.enable"
REPLICA_SELECTOR: Final = "replica.selector.class"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER: Final = "LeaderSelector"
"""Kafka has no class for it: there it is the config left empty."""

MIB: Final = 1024 * 1024
MINUTE_MS: Final = 60_000
DAY_MS: Final = 24 * 60 * MINUTE_MS


class Scope(Enum):
    """What a config may be set for."""

    TOPIC = "topic"
    BROKER = "broker"
    CLUSTER = "cluster"


ANYWHERE: Final = frozenset(Scope)
NOT_ONE_BROKER: Final = frozenset({Scope.TOPIC, Scope.CLUSTER})
"""The controller decides by it, too, and must decide as every broker does."""
TOPICS_ALONE: Final = frozenset({Scope.TOPIC})
BROKERS_ALONE: Final = frozenset({Scope.BROKER, Scope.CLUSTER})
THE_CLUSTER: Final = frozenset({Scope.CLUSTER})


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One config. `name` is that of topics, `broker_name` that of brokers and of the cluster; "": none.

    `setting` is the variable of the environment that says it when nobody has set it; "": none does.
    """

    name: str
    broker_name: str
    kind: Kind
    default: str
    documentation: str
    scopes: frozenset[Scope] = ANYWHERE
    setting: str = ""
    is_obeyed: bool = True

    @property
    def key(self) -> str:
        """The one name by which `config_levels` knows it."""
        return self.name or self.broker_name

    def name_for(self, scope: Scope) -> str:
        """What it is called there; "": it cannot be set there."""
        if scope not in self.scopes:
            return ""
        return self.name if scope is Scope.TOPIC else self.broker_name


_ALL: Final = (
    ConfigKey(
        CLEANUP_POLICY,
        "log.cleanup.policy",
        SomeOf(("compact", "delete")),
        "delete",
        "What becomes of old records: segments are deleted as the retention says; of each key the last"
        " record stays; or both.",
    ),
    ConfigKey(
        COMPRESSION_TYPE,
        "compression.type",
        OneOf(("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")),
        "producer",
        "How batches are stored: as the producer compressed them, or by this codec, for which the leader"
        " opens those that come otherwise.",
    ),
    ConfigKey(
        DELETE_RETENTION_MS,
        "log.cleaner.delete.retention.ms",
        WholeNumber(0, INT64_MAX),
        str(DAY_MS),
        "How long a tombstone stays in a compacted log, for consumers that read from its beginning.",
    ),
    ConfigKey(
        FILE_DELETE_DELAY_MS,
        "log.segment.delete.delay.ms",
        WholeNumber(0, INT64_MAX),
        str(MINUTE_MS),
        "The logs of a deleted topic are erased after this.",
        BROKERS_ALONE,
        "MUSTER_FILE_DELETE_DELAY_MS",
    ),
    ConfigKey(
        FOLLOWER_THROTTLED_REPLICAS,
        "",
        Replicas(),
        "",
        "Replicas that copy no faster than follower.replication.throttled.rate while they are behind.",
        TOPICS_ALONE,
    ),
    ConfigKey(
        LEADER_THROTTLED_REPLICAS,
        "",
        Replicas(),
        "",
        "Replicas that are sent to followers that are behind no faster than"
        " leader.replication.throttled.rate.",
        TOPICS_ALONE,
    ),
    ConfigKey(
        MAX_COMPACTION_LAG_MS,
        "log.cleaner.max.compaction.lag.ms",
        WholeNumber(1, INT64_MAX),
        str(INT64_MAX),
        "A record is compacted after this at the latest, however little of the log is dirty.",
    ),
    ConfigKey(
        MAX_MESSAGE_BYTES,
        "message.max.bytes",
        WholeNumber(0, INT32_MAX),
        "1048588",
        "Largest record batch that a producer may send, in bytes.",
        setting="MUSTER_MESSAGE_MAX_BYTES",
    ),
    ConfigKey(
        TIMESTAMP_AFTER_MAX_MS,
        "log.message.timestamp.after.max.ms",
        WholeNumber(0, INT64_MAX),
        "3600000",
        "A record whose time lies further in the future is refused.",
    ),
    ConfigKey(
        TIMESTAMP_BEFORE_MAX_MS,
        "log.message.timestamp.before.max.ms",
        WholeNumber(0, INT64_MAX),
        str(INT64_MAX),
        "A record whose time lies further in the past is refused.",
    ),
    ConfigKey(
        TIMESTAMP_TYPE,
        "log.message.timestamp.type",
        OneOf(("CreateTime", "LogAppendTime")),
        "CreateTime",
        "Whether a record has the time that its producer states, or that at which the leader stored it.",
    ),
    ConfigKey(
        MIN_CLEANABLE_DIRTY_RATIO,
        "log.cleaner.min.cleanable.ratio",
        Ratio(),
        "0.5",
        "How much of a log must be dirty before it is compacted.",
    ),
    ConfigKey(
        MIN_COMPACTION_LAG_MS,
        "log.cleaner.min.compaction.lag.ms",
        WholeNumber(0, INT64_MAX),
        "0",
        "A record is not compacted before this.",
    ),
    ConfigKey(
        MIN_INSYNC_REPLICAS,
        "min.insync.replicas",
        WholeNumber(1, INT32_MAX),
        "1",
        "Replicas that must hold a record of acks=all; the ISR is not shrunk below it.",
        NOT_ONE_BROKER,
        "MUSTER_MIN_INSYNC_REPLICAS",
    ),
    ConfigKey(
        RETENTION_BYTES,
        "log.retention.bytes",
        WholeNumber(-1, INT64_MAX),
        "-1",
        "Oldest segments are deleted while a partition has more bytes than this; -1: any number.",
    ),
    ConfigKey(
        RETENTION_MS,
        "log.retention.ms",
        WholeNumber(-1, INT64_MAX),
        str(7 * DAY_MS),
        "Segments whose newest record is older are deleted; -1: none is.",
    ),
    ConfigKey(
        SEGMENT_BYTES,
        "log.segment.bytes",
        WholeNumber(MIB, INT32_MAX),
        "1073741824",
        "A segment of this size is closed and the next begun.",
        setting="MUSTER_LOG_SEGMENT_BYTES",
    ),
    ConfigKey(
        SEGMENT_MS,
        "log.roll.ms",
        WholeNumber(MINUTE_MS, INT64_MAX),
        str(7 * DAY_MS),
        "A segment of this age is closed with the next record, though it is small.",
    ),
    ConfigKey(
        UNCLEAN_LEADER_ELECTION,
        "unclean.leader.election.enable",
        FLAG,
        "false",
        "Elect a replica outside of the ISR rather than none; what it lacks is lost.",
        NOT_ONE_BROKER,
        "MUSTER_UNCLEAN_LEADER_ELECTION_ENABLE",
    ),
    ConfigKey(
        "",
        DELETE_TOPIC_ENABLE,
        FLAG,
        "true",
        "Whether topics can be deleted.",
        THE_CLUSTER,
    ),
    ConfigKey(
        "",
        FOLLOWER_THROTTLED_RATE,
        WholeNumber(0, INT64_MAX),
        str(INT64_MAX),
        "Bytes a second that a broker copies for its throttled replicas together.",
        BROKERS_ALONE,
    ),
    ConfigKey(
        "",
        LEADER_THROTTLED_RATE,
        WholeNumber(0, INT64_MAX),
        str(INT64_MAX),
        "Bytes a second that a broker sends of its throttled replicas together.",
        BROKERS_ALONE,
    ),
    ConfigKey(
        "",
        REPLICA_SELECTOR,
        OneOf((RACK_AWARE, LEADER)),
        RACK_AWARE,
        "Whether consumers that state client.rack are sent to an in-sync replica on that rack, or read at the"
        " leader.",
        BROKERS_ALONE,
    ),
)

KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType({one.key: one for one in _ALL})
"""Every config by its one name, also what nobody obeys yet."""


def _by_name(scope: Scope) -> Mapping[str, ConfigKey]:
    named = ((one.name_for(scope), one) for one in _ALL if one.is_obeyed)
    return MappingProxyType({name: one for name, one in named if name})


NAMED: Final[Mapping[Scope, Mapping[str, ConfigKey]]] = MappingProxyType(
    {scope: _by_name(scope) for scope in Scope}
)
"""What can be set for a topic, a broker and the cluster, by the name that it has there."""


def found(scope: Scope, name: str) -> ConfigKey:
    """The config that is called `name` there. Raises BadConfig, which says where it could be set."""
    known = NAMED[scope].get(name)
    if known is None:
        raise BadConfig(f"{name} is not a config of a {scope.value} here{_elsewhere(scope, name)}")
    return known


_TRIMMED: Final = "".join(map(chr, range(0x21)))
"""What Java's `trim` takes off: no space of other scripts."""


def checked(key: str, text: str | None, scope: Scope = Scope.TOPIC) -> str:
    """`text` as it is stored under `key`, without spaces around it, as Kafka reads it. Raises BadConfig."""
    known = found(scope, key)
    stored = None if text is None else known.kind.admitted(text.strip(_TRIMMED))
    if stored is None:
        raise BadConfig(f"{_shown(text)} is no value of {key}, which takes {known.kind}")
    return stored


def check_together(configs: Mapping[str, str]) -> None:
    """Raise BadConfig for what a topic cannot have at once, though each is a value."""
    least = configs.get(MIN_COMPACTION_LAG_MS, KEYS[MIN_COMPACTION_LAG_MS].default)
    most = configs.get(MAX_COMPACTION_LAG_MS, KEYS[MAX_COMPACTION_LAG_MS].default)
    if int(least) > int(most):
        raise BadConfig(f"{MIN_COMPACTION_LAG_MS}={least} is more than {MAX_COMPACTION_LAG_MS}={most}")


def floor(min_insync_replicas: int, replica_count: int) -> int:
    """The floor of an ISR: nobody is taken out of it when fewer members would remain (replication.md 1)."""
    return min(min_insync_replicas, replica_count)


def _elsewhere(scope: Scope, name: str) -> str:
    """Where a name that is none here could be set; "": nowhere."""
    for one in _obeyed(NAMED.values()):
        if name in (one.name, one.broker_name):
            here = one.name_for(scope)
            places = ", ".join(sorted(other.value for other in one.scopes))
            return f"; it is called {here} there" if here else f", only of a {places}"
    return ""


def _obeyed(named: Iterable[Mapping[str, ConfigKey]]) -> Iterable[ConfigKey]:
    for names in named:
        yield from names.values()


def _shown(text: str | None) -> str:
    """The value in a refusal; a list of half a megabyte is not told back."""
    return repr(text) if text is None or len(text) <= 200 else repr(text[:200] + "…")
