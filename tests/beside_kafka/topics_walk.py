"""This room is what the walk of operators asks about topics and the cluster.

Topics are made, grown, moved and deleted; after each change both tell of all topics of the walk alike.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from muster.kafkawire.api_table import ApiKey
from tests.beside_kafka.doors import PATIENCE_S
from tests.beside_kafka.known_of_admin import KNOWN_OF_ADMIN
from tests.beside_kafka.lockstep import Known, Lockstep, Parted, Values, both_answer, stripped

TEN_SECONDS: Final = timedelta(seconds=10)
NOBODY: Final = 99
"""No broker has this id."""
STRANGE_ID: Final = UUID("8a3fd5d2-9f0b-4b1e-a2a9-3f6f0c1d2e4b")
OF_BROKERS: Final = frozenset(
    (
        "leader_id",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
        "replicas",
        "adding_replicas",
        "removing_replicas",
    )
)
BAD_NAMES: Final = ("", ".", "bad name!", "a" * 250, "..")
Asks = Sequence[tuple[Callable[[], list[str]], int]]


@dataclass
class TopicsWalk(Lockstep):
    """Some topics and what belongs to them; `prefix` begins each name of this walk."""

    prefix: str = field(kw_only=True)
    at_a_node: bool = field(kw_only=True, default=False)
    """Muster's door is a node's: it has no logs."""
    known: tuple[Known, ...] = KNOWN_OF_ADMIN
    brokers: tuple[int, int] = (1, 1)
    everywhere: list[int] = field(default_factory=list)
    """The brokers, called alike by both if there are several."""
    names: list[str] = field(default_factory=list)
    partitions: dict[str, int] = field(default_factory=dict)
    ids: tuple[dict[UUID, str], dict[UUID, str]] = field(default_factory=lambda: ({}, {}))

    def __post_init__(self) -> None:
        self.names = [self.prefix + end for end in ("a", "b", "c.d", "c_d")]
        asked = {"topics": [], "allow_auto_topic_creation": False}
        told = both_answer(self.doors, ApiKey.METADATA, 5, lambda _: asked)
        self.brokers = (
            min(b["node_id"] for b in told[0]["brokers"]),
            min(b["node_id"] for b in told[1]["brokers"]),
        )
        self.everywhere = sorted(b["node_id"] for b in told[1]["brokers"])

    def walk(self, steps: int) -> list[str]:
        """The differences of the first step that has any; none: all were alike."""
        asks = self.asks()
        found = self.settled()
        try:
            for _ in range(steps):
                if found:
                    break
                (ask,) = self.random.choices([one for one, _ in asks], [weight for _, weight in asks])
                found = ask()
        except Parted:
            pass
        return found

    def asks(self) -> Asks:
        """What may be asked, and how often."""
        of_logs = (
            (self._log_dirs, 3), (self._move_logs, 2), (self._producers, 2), (self._delete_records, 3),
        )  # fmt: skip
        return (
            (self._create, 14), (self._delete, 5), (self._grow, 8), (self._metadata, 8), (self._reassign, 6),
            (self._reassignments, 3), (self._elect, 5), (self._cluster, 2), (self._features, 2),
            (self._acls, 3), (self._scram, 1), (self._unregister, 1), *(() if self.at_a_node else of_logs),
        )  # fmt: skip

    # -- what both share

    def told(self, door: int, value: Any, name: str = "") -> Any:
        """An answer by names that both share: of topics for their ids, one for the broker."""
        if isinstance(value, dict):
            shown = {
                one: self.told(door, part, one) for one, part in value.items() if one not in ("leader_epoch",)
            }
            return stripped(shown)
        if isinstance(value, list):
            parts = [self.told(door, one, name) for one in value]
            # The first one is preferred.
            return str(parts) if name in ("replica_nodes", "replicas") else parts
        if isinstance(value, UUID):
            return self.ids[door].get(value, "an id")
        if name in OF_BROKERS and value == self.brokers[door]:
            return "the broker"
        return value

    def topic(self) -> str:
        """Mostly one of the walk's, there or not."""
        roll = self.random.random()
        if roll < 0.06:
            return str(self.pick(*BAD_NAMES, "_ok-" + self.prefix))
        return str(self.pick(*self.names))

    def existing(self) -> str:
        """A name that is there, if any is."""
        return str(self.pick(*self.partitions)) if self.partitions and self.chance(0.85) else self.topic()

    def changed(self, found: list[str]) -> list[str]:
        """What is not alike after a change."""
        if self.is_apart:
            raise Parted
        return found or self.settled()

    def settled(self) -> list[str]:
        """Both tell of the same topics; what they are is learned."""
        topics = [{"name": name, "topic_id": None} for name in self.names]
        values = {
            "topics": topics,
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        }

        def told(door: int, answer: Any) -> Any:
            for one in answer["topics"]:
                if one["topic_id"]:
                    self.ids[door][one["topic_id"]] = one["name"]
            return self._topics(door, answer)

        found, ours, _ = self.ask(ApiKey.METADATA, 12, values, told, until_alike=True)
        if not found:
            self.steps.pop()
        self.partitions = {
            one["name"]: len(one["partitions"]) for one in ours["topics"] if not one["error_code"]
        }
        return found

    def _topics(self, door: int, answer: Any) -> Any:
        mine = [one for one in answer["topics"] if one["name"] is None or self._is_mine(one["name"])]
        return self.told(door, {"topics": mine})

    def _is_mine(self, name: str) -> bool:
        return self.prefix in name or name in BAD_NAMES

    # -- topics

    @property
    def are_several(self) -> bool:
        """Then each chooses other brokers for replicas: the walk places them itself."""
        return len(self.everywhere) > 1

    def _somewhere(self) -> list[int]:
        return self.random.sample(self.everywhere, self.random.randint(1, len(self.everywhere)))

    def _replicas(self, door: int, shape: Sequence[int]) -> list[int]:
        return [self.brokers[door] if one == 1 else one for one in shape]

    def _create(self) -> list[str]:
        version = self.version(ApiKey.CREATE_TOPICS)
        wanted = []
        for _ in range(self.pick(1, 1, 1, 2)):
            assigned = None
            if self.chance(0.3):
                assigned = self.pick(
                    [(0, [1])], [(0, [1]), (1, [1])], [(1, [1])], [(0, [NOBODY])], [(0, [])],
                    [(0, [1]), (0, [1])],
                    [(0, [1, 1])], [(0, [1]), (2, [1])], [(0, [1, NOBODY])], [(-1, [1])], [(0, [-1])],
                    [(0, [1]), (1, [])],
                )  # fmt: skip
            if self.are_several:
                assigned = assigned or [(number, self._somewhere()) for number in range(self.pick(1, 2, 3))]
            usual = (-1, -1) if assigned and self.chance(0.85) else None
            partitions, factor = usual or (
                self.pick(1, 2, 3, 3, -1, 0, -2),
                self.pick(1, 1, 1, 1, -1, 0, 2, -2),
            )
            wanted.append((self.topic(), partitions, factor, assigned or [], self._some_configs()))
        validates = self.chance(0.2)

        def values(door: int) -> Values:
            topics = [
                {
                    "name": name, "num_partitions": partitions, "replication_factor": factor,
                    "configs": configs,
                    "assignments": [
                        {"partition_index": number, "broker_ids": self._replicas(door, replicas)}
                        for number, replicas in assigned
                    ],
                }
                for name, partitions, factor, assigned, configs in wanted
            ]  # fmt: skip
            return {"topics": topics, "timeout": TEN_SECONDS, "validate_only": validates}

        def told(door: int, answer: Any) -> Any:
            shown = self.told(door, answer)
            for one in shown["topics"]:
                one.pop("topic_id", None)
                set_here = [config for config in one.get("configs") or () if config["config_source"] == 1]
                one["configs"] = [[config["name"], config["value"].strip()] for config in set_here]
            return shown

        about = {"created": wanted, "several": any(assigned or configs for *_, assigned, configs in wanted)}
        return self.changed(self.ask(ApiKey.CREATE_TOPICS, version, values, told, about=about)[0])

    def _some_configs(self) -> list[Values]:
        if self.chance(0.7):
            return []
        pairs = (
            ("retention.ms", "1000000"), ("retention.ms", "-2"), ("retention.ms", "x"),
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "compact,delete"), ("cleanup.policy", "archive"), ("min.insync.replicas", "0"),
            ("min.insync.replicas", "1"), ("max.message.bytes", "-1"), ("max.message.bytes", "2000"),
            ("no.such", "1"),
            ("retention.ms", None), ("compression.type", "zstd"), ("compression.type", "rar"),
            ("retention.ms", ""),
            ("unclean.leader.election.enable", "true"), ("unclean.leader.election.enable", "yes"),
            ("segment.bytes", "1"), ("message.timestamp.type", "LogAppendTime"), ("retention.ms", " 5000 "),
        )  # fmt: skip
        chosen = dict(self.random.sample(pairs, self.pick(1, 1, 2)))
        return [{"name": name, "value": value} for name, value in chosen.items()]

    def _delete(self) -> list[str]:
        version = self.version(ApiKey.DELETE_TOPICS)
        named = [self.existing() for _ in range(self.pick(1, 1, 2))]
        by_id = version >= 6 and self.chance(0.4)
        strange = self.chance(0.1)

        def values(door: int) -> Values:
            known = {name: identity for identity, name in self.ids[door].items() if name in self.partitions}
            of_ids = [
                {"name": None, "topic_id": STRANGE_ID if strange else known.get(name, STRANGE_ID)}
                for name in named
            ]
            topics = of_ids if by_id else [{"name": name, "topic_id": None} for name in named]
            return {"topics": topics, "topic_names": named, "timeout": TEN_SECONDS}

        about = {"named": named, "by_id": by_id}
        return self.changed(self.ask(ApiKey.DELETE_TOPICS, version, values, self.told, about=about)[0])

    def _grow(self) -> list[str]:
        version = self.version(ApiKey.CREATE_PARTITIONS)
        name = self.existing()
        now = self.partitions.get(name, 1)
        count = self.pick(now + 1, now + 1, now + 2, now, now - 1, 0, -1)
        assigned = None
        if self.chance(0.4):
            assigned = self.pick([[1]], [[1], [1]], [[NOBODY]], [], [[]], [[1, 1]], [[1], [NOBODY]])
        if self.are_several and count > now:
            assigned = assigned or [self._somewhere() for _ in range(count - now)]
        validates = self.chance(0.25)

        def values(door: int) -> Values:
            given = assigned and [{"broker_ids": self._replicas(door, one)} for one in assigned]
            topic = {"name": name, "count": count, "assignments": given}
            return {"topics": [topic] * self.pick(1), "timeout": TEN_SECONDS, "validate_only": validates}

        return self.changed(
            self.ask(ApiKey.CREATE_PARTITIONS, version, values, self.told, about={"now": now})[0]
        )

    def _metadata(self) -> list[str]:
        version = self.version(ApiKey.METADATA)
        roll = self.random.random()
        named = [self.existing() for _ in range(self.pick(1, 2, 0))]
        creates, operations = self.chance(0.5), self.chance(0.3)
        by_id = version >= 12 and self.chance(0.3)

        def values(door: int) -> Values:
            known = {name: identity for identity, name in self.ids[door].items()}
            topics: Any = [{"name": name, "topic_id": None} for name in named]
            if by_id:
                topics = [{"name": None, "topic_id": known.get(name, STRANGE_ID)} for name in named]
            if roll < 0.2:
                topics = None if version else ()
            return {
                "topics": topics, "allow_auto_topic_creation": creates,
                "include_topic_authorized_operations": operations,
                "include_cluster_authorized_operations": operations,
            }  # fmt: skip

        about = {"named": named, "operations": operations, "by_id": by_id}
        return self.ask(ApiKey.METADATA, version, values, self._topics, about=about, until_alike=True)[0]

    # -- leaders and replicas

    def _number(self, name: str) -> int:
        return int(
            self.random.randrange(max(self.partitions.get(name, 1), 1))
            if self.chance(0.85)
            else self.pick(77, -1)
        )

    def _reassign(self) -> list[str]:
        version = self.version(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
        name = self.existing()
        number = self._number(name)
        target = self.pick(None, None, [1], [1], [NOBODY], [], [1, 1], [-1], [1, NOBODY])
        if self.are_several and self.chance(0.7):
            target = self._somewhere()

        def values(door: int) -> Values:
            replicas = None if target is None else self._replicas(door, target)
            topic = {"name": name, "partitions": [{"partition_index": number, "replicas": replicas}]}
            return {"timeout": TEN_SECONDS, "topics": [topic], "allow_replication_factor_change": True}

        found = self.ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, values, self.told, about={"target": target}
        )[0]
        self._until_moved()
        return self.changed(found)

    def _until_moved(self) -> None:
        """How long a move takes is each system's own."""
        asked = {"timeout": TEN_SECONDS, "topics": None}
        give_up_at = time.monotonic() + PATIENCE_S
        key = ApiKey.LIST_PARTITION_REASSIGNMENTS
        while any(one["topics"] for one in both_answer(self.doors, key, 0, lambda _: asked)):
            assert time.monotonic() < give_up_at, "a move does not end"

    def _reassignments(self) -> list[str]:
        name = self.existing()
        topics = None if self.chance(0.4) else [{"name": name, "partition_indexes": [self._number(name), 0]}]
        values = {"timeout": TEN_SECONDS, "topics": topics}
        return self.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, values, self.told)[0]

    def _elect(self) -> list[str]:
        version = self.version(ApiKey.ELECT_LEADERS)
        name, kind = self.existing(), self.pick(0, 0, 1, 1, 2, -1)
        named = None if self.chance(0.2) else [{"topic": name, "partitions": [self._number(name), 0]}]
        values = {"election_type": kind, "topic_partitions": named, "timeout": TEN_SECONDS}

        def told(door: int, answer: Any) -> Any:
            shown = self.told(door, answer)
            results = shown.pop("replica_election_results")
            shown["results"] = {
                one["topic"]: {part["partition_id"]: part for part in one["partition_result"]}
                for one in results if one["topic"].startswith(self.prefix) and one["partition_result"]
            }  # fmt: skip
            return shown

        return self.ask(
            ApiKey.ELECT_LEADERS, version, values, told, about={"kind": kind, "all": named is None}
        )[0]

    def _log_dirs(self) -> list[str]:
        version = self.version(ApiKey.DESCRIBE_LOG_DIRS)
        name = self.existing()
        topics = None if self.chance(0.3) else [{"topic": name, "partitions": [0, self._number(name)]}]

        def told(door: int, answer: Any) -> Any:
            held = [
                (one["name"], stripped(part))
                for shelf in answer["results"] for one in shelf["topics"] if one["name"] in self.partitions
                for part in one["partitions"]
            ]  # fmt: skip
            codes = [shelf["error_code"] for shelf in answer["results"]]
            return {"error_code": answer.get("error_code"), "held": sorted(held, key=str), "codes": codes}

        return self.ask(ApiKey.DESCRIBE_LOG_DIRS, version, {"topics": topics}, told, until_alike=True)[0]

    def _move_logs(self) -> list[str]:
        version = self.version(ApiKey.ALTER_REPLICA_LOG_DIRS)
        name = self.existing()
        wanted = {
            "path": self.pick("/no/such/folder", "relative", ""),
            "topics": [{"name": name, "partitions": [self._number(name)]}],
        }
        about = {"several": name not in self.partitions}
        return self.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, {"dirs": [wanted]}, self.told, about=about)[0]

    def _producers(self) -> list[str]:
        topics = [{"name": self.existing(), "partition_indexes": [0, self.pick(0, 1, 77)]}]
        return self.ask(ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": topics}, self.told, until_alike=True)[0]

    def _delete_records(self) -> list[str]:
        version, name = self.version(ApiKey.DELETE_RECORDS), self.existing()
        topics = [
            {
                "name": name,
                "partitions": [{"partition_index": self._number(name), "offset": self.pick(0, -1, 1, -2)}],
            }
        ]
        values = {"timeout": TEN_SECONDS, "topics": topics}
        return self.ask(ApiKey.DELETE_RECORDS, version, values, self.told, until_alike=True)[0]

    # -- the cluster

    def _cluster(self) -> list[str]:
        version = self.version(ApiKey.DESCRIBE_CLUSTER)
        values = {"include_cluster_authorized_operations": False, "endpoint_type": self.pick(1, 1, 2, 3, 0),
                  "include_fenced_brokers": self.chance(0.5)}  # fmt: skip

        def told(_door: int, answer: Any) -> Any:
            return {"error_code": answer["error_code"], "endpoint_type": answer.get("endpoint_type")}

        return self.ask(ApiKey.DESCRIBE_CLUSTER, version, values, told)[0]

    def _features(self) -> list[str]:
        version = self.version(ApiKey.UPDATE_FEATURES)
        update = {
            "feature": self.pick("no.such", "metadata.version", ""), "max_version_level": self.pick(1, 0, -1),
            "upgrade_type": self.pick(1, 2, 9), "allow_downgrade": False,
        }  # fmt: skip
        values = {"timeout": TEN_SECONDS, "feature_updates": [update], "validate_only": True}
        return self.ask(ApiKey.UPDATE_FEATURES, max(version, 1), values, self.told)[0]

    def _acls(self) -> list[str]:
        key = self.pick(ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
        about = {
            "resource_type_filter": 2, "resource_name_filter": "x", "pattern_type_filter": 3,
            "principal_filter": None,
            "host_filter": None, "operation": 2, "permission_type": 3,
        }  # fmt: skip
        made = {
            "resource_type": 2, "resource_name": "x", "resource_pattern_type": 3, "principal": "User:a",
            "host": "*", "operation": 2, "permission_type": 3,
        }  # fmt: skip
        values: dict[ApiKey, Values] = {
            ApiKey.DESCRIBE_ACLS: about,
            ApiKey.CREATE_ACLS: {"creations": [made]},
            ApiKey.DELETE_ACLS: {"filters": [about]},
        }
        return self.ask(key, self.version(key), values[key], self.told)[0]

    def _scram(self) -> list[str]:
        users = self.pick(
            None, [{"name": "nobody"}], [{"name": "nobody"}, {"name": "nobody"}], [{"name": ""}]
        )
        return self.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": users}, self.told)[0]

    def _unregister(self) -> list[str]:
        return self.ask(ApiKey.UNREGISTER_BROKER, 0, {"broker_id": self.pick(NOBODY, -1)}, self.told)[0]
