"""This room is what the walk of operators asks about configs and quotas."""

from dataclasses import dataclass
from typing import Any, Final

from muster.kafkawire.api_table import ApiKey
from tests.beside_kafka.lockstep import Parted, Values
from tests.beside_kafka.topics_walk import Asks, TopicsWalk

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
TOPICS_OWN: Final = 1
"""The source of a config that is set for the topic itself."""

TOPIC_VALUES: Final = (
    ("retention.ms", "86400000"), ("retention.ms", "-1"), ("retention.ms", "-5"), ("retention.ms", "soon"),
    ("cleanup.policy", "compact"), ("cleanup.policy", "delete"), ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "sweep"), ("max.message.bytes", "5000"), ("max.message.bytes", "-1"),
    ("no.such.config", "1"),
    ("min.insync.replicas", "1"), ("min.insync.replicas", "0"), ("compression.type", "zstd"),
    ("compression.type", "rar"),
    ("segment.bytes", "2000000"), ("segment.ms", "100000"), ("message.timestamp.type", "LogAppendTime"),
    ("unclean.leader.election.enable", "true"), ("unclean.leader.election.enable", "maybe"),
    ("retention.bytes", "-1"),
    ("min.cleanable.dirty.ratio", "0.3"), ("min.cleanable.dirty.ratio", "2"), ("delete.retention.ms", "7"),
    ("leader.replication.throttled.replicas", "0:1"), ("leader.replication.throttled.replicas", "*"),
    ("leader.replication.throttled.replicas", "x"), ("retention.ms", None), ("cleanup.policy", ""),
)  # fmt: skip
BROKER_VALUES: Final = (
    ("log.retention.ms", "86400000"), ("log.retention.ms", "x"), ("no.such.config", "1"), ("broker.id", "7"),
    ("log.cleanup.policy", "delete"), ("message.max.bytes", "-1"),
    ("leader.replication.throttled.rate", "1000000"),
    ("listeners", "x"), ("compression.type", "producer"),
)  # fmt: skip


@dataclass
class ConfigsWalk(TopicsWalk):
    """Configs of topics and brokers, and what else has any; quotas of users and clients."""

    def asks(self) -> Asks:
        mine = (
            (self._alter, 12), (self._replace, 6), (self._describe, 10), (self._alter_quotas, 6),
            (self._describe_quotas, 5),
        )  # fmt: skip
        return (*super().asks(), *mine)

    def _resource(self) -> tuple[int, str, tuple[tuple[str, str | None], ...]]:
        """A kind, a name, and what may be set there."""
        kind = self.pick(
            TOPIC, TOPIC, TOPIC, TOPIC, TOPIC, BROKER, BROKER, BROKER, LOGGER, METRICS, GROUP, 0, 3
        )
        if kind == TOPIC:
            return TOPIC, self.existing(), TOPIC_VALUES
        if kind in (BROKER, LOGGER):
            return kind, str(self.pick("the broker", "", "the broker", "x")), BROKER_VALUES
        values = {METRICS: (("interval.ms", "1000"),), GROUP: (("consumer.session.timeout.ms", "45000"),)}
        return kind, self.prefix + "g", values.get(kind, (("x", "1"),))

    def _named(self, door: int, name: str) -> str:
        return str(self.brokers[door]) if name == "the broker" else name

    def _alter(self) -> list[str]:
        version = self.version(ApiKey.INCREMENTAL_ALTER_CONFIGS)
        kind, name, pairs = self._resource()
        chosen = self.random.sample(pairs, min(self.pick(1, 1, 1, 2), len(pairs)))
        wanted = [
            {"name": key, "value": value, "config_operation": self._operation(key)} for key, value in chosen
        ]
        if self.chance(0.05):
            wanted.append(dict(wanted[0]))
        # What is set for a broker would hold in the next walk, too.
        validates = kind == BROKER or self.chance(0.25)

        def values(door: int) -> Values:
            resource = {"resource_type": kind, "resource_name": self._named(door, name), "configs": wanted}
            resources = [resource]
            return {"resources": resources, "validate_only": validates}

        about = {
            "kind": kind,
            "wanted": wanted,
            "name": name,
            "several": name not in self.partitions or len(wanted) > 1,
        }
        found = self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, values, self._of_resources, about=about)[
            0
        ]
        return found or self._told_alike(kind, name)

    def _operation(self, key: str) -> int:
        if self.chance(0.5):
            return SET
        return int(
            self.pick(DELETE, APPEND, SUBTRACT)
            if "polic" in key
            else self.pick(SET, DELETE, DELETE, APPEND, 9)
        )

    def _replace(self) -> list[str]:
        version = self.version(ApiKey.ALTER_CONFIGS)
        kind, name, pairs = self._resource()
        chosen = self.random.sample(pairs, min(self.pick(0, 1, 1, 2), len(pairs)))
        wanted = [{"name": key, "value": value} for key, value in chosen]
        # What is set for a broker would hold in the next walk, too.
        validates = kind == BROKER or self.chance(0.25)

        def values(door: int) -> Values:
            resource = {"resource_type": kind, "resource_name": self._named(door, name), "configs": wanted}
            return {"resources": [resource], "validate_only": validates}

        about = {
            "kind": kind,
            "wanted": wanted,
            "name": name,
            "several": name not in self.partitions or len(wanted) > 1,
        }
        found = self.ask(ApiKey.ALTER_CONFIGS, version, values, self._of_resources, about=about)[0]
        return found or self._told_alike(kind, name)

    def _of_resources(self, door: int, answer: Any) -> Any:
        shown = self.told(door, answer)
        for one in shown.get("responses", shown.get("results", ())):
            if one["resource_type"] in (BROKER, LOGGER) and one["resource_name"] == str(self.brokers[door]):
                one["resource_name"] = "the broker"
        return shown

    def _told_alike(self, kind: int, name: str) -> list[str]:
        """Both tell of what is set for it."""
        if self.is_apart and kind == TOPIC:
            raise Parted
        if kind != TOPIC:
            return []
        found = self._describe_one(4, kind, name, None, False)
        if not found:
            self.steps.pop()
        return found

    def _describe(self) -> list[str]:
        kind, name, pairs = self._resource()
        keys = self.pick(None, None, [self.pick(*pairs)[0]], ["retention.ms", "no.such"], [])
        return self._describe_one(self.version(ApiKey.DESCRIBE_CONFIGS), kind, name, keys, self.chance(0.5))

    def _describe_one(
        self, version: int, kind: int, name: str, keys: list[str] | None, synonyms: bool
    ) -> list[str]:
        def values(door: int) -> Values:
            resource = {
                "resource_type": kind,
                "resource_name": self._named(door, name),
                "configuration_keys": keys,
            }
            return {"resources": [resource], "include_synonyms": synonyms, "include_documentation": False}

        def told(door: int, answer: Any) -> Any:
            shown = self._of_resources(door, answer)
            for one in shown["results"]:
                # Defaults are each system's own.
                own = [config for config in one["configs"] if config["config_source"] == TOPICS_OWN]
                one["configs"] = {config["name"]: config for config in own}
                for config in own:
                    config["value"] = config["value"].strip()
                    said = config.get("synonyms", ())
                    config["synonyms"] = [by for by in said if by["source"] == TOPICS_OWN]
            return shown

        about = {"kind": kind, "name": name}
        return self.ask(ApiKey.DESCRIBE_CONFIGS, version, values, told, about=about, until_alike=True)[0]

    # -- quotas

    def _entity(self) -> list[tuple[str, str | None]]:
        user, client = (
            ("user", self.pick(self.prefix + "u", self.prefix + "v")),
            ("client-id", self.prefix + "c"),
        )
        chosen = self.pick(
            [user], [user], [client], [user, client], [("user", None), client], [("group", "x")], [],
            [("ip", "1.2.3.4")], [("user", "")],
        )  # fmt: skip
        return list(chosen)

    def _alter_quotas(self) -> list[str]:
        version = self.version(ApiKey.ALTER_CLIENT_QUOTAS)
        entity = [{"entity_type": kind, "entity_name": name} for kind, name in self._entity()]
        ops = [
            {
                "key": self.pick("producer_byte_rate", "consumer_byte_rate", "no_rate", ""),
                "value": self.pick(1000.0, 2_000_000.0, 0.0, -1.0, 1.5, float(2**52)),
                "remove": self.chance(0.25),
            }
            for _ in range(self.pick(1, 1, 2, 0))
        ]  # fmt: skip
        values = {"entries": [{"entity": entity, "ops": ops}], "validate_only": self.chance(0.25)}
        about = {"entity": entity, "ops": ops}
        found = self.ask(ApiKey.ALTER_CLIENT_QUOTAS, version, values, self.told, about=about)[0]
        return found or self._quotas(
            [{"entity_type": "user", "match_type": 2, "match": None}], False, keep=False
        )

    def _describe_quotas(self) -> list[str]:
        components = [
            {"entity_type": kind, "match_type": self.pick(0, 1, 2, 2, 9), "match": name}
            for kind, name in self._entity()
        ]
        for one in components:
            if one["match_type"] in (1, 2):
                one["match"] = None
        return self._quotas(components, self.chance(0.5))

    def _quotas(self, components: list[Any], strict: bool, keep: bool = True) -> list[str]:
        version = self.version(ApiKey.DESCRIBE_CLIENT_QUOTAS)

        def told(door: int, answer: Any) -> Any:
            entries = [one for one in answer["entries"] or () if self.prefix in str(one["entity"])]
            return {"error_code": answer["error_code"], "entries": self.told(door, entries)}

        values = {"components": components, "strict": strict}
        found = self.ask(
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            version,
            values,
            told,
            about={"components": components},
            until_alike=True,
        )[0]
        if not keep and not found:
            self.steps.pop()
        return found
