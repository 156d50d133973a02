"""This room is what the walk of logs asks for producers, and how the configs of its topic change."""

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from muster.kafkawire.api_table import ApiKey, request_class
from muster.kernel.error_codes import ErrorCode
from tests.beside_kafka.doors import HUNG_UP
from tests.beside_kafka.known_of_logs import KNOWN_OF_LOGS
from tests.beside_kafka.lockstep import Known, Lockstep, Parted, Values, both_answer, shaped, stripped
from tests.beside_kafka.log_batches import SPOILERS, Batch

TEN_SECONDS: Final = timedelta(seconds=10)
DAY_MS: Final = 86_400_000
WRAP: Final = 2**31
LARGEST_SEQUENCE: Final = WRAP - 1
NOBODY: Final = (-1, -1, -1)
"""Id, epoch and sequence of who is not idempotent."""
TOPIC: Final = 2
"""The kind of resource."""
PARTITIONS: Final = 2
"""So many are read."""
ASIDE: Final = 2
"""The partition behind them, for what one of both stores, as is known."""
ASKED: Final = 1
"""The broker at whose door the walk asks."""
STORED_BY_KAFKA: Final = ("bytes behind it", "append time", "a record too many")
CONFIGS: Final = {
    "max.message.bytes": ("300", "1000", "5000", None),
    "message.timestamp.type": ("LogAppendTime", "CreateTime", None),
    "message.timestamp.before.max.ms": (str(DAY_MS), None),
    "message.timestamp.after.max.ms": (str(10 * DAY_MS), "0", None),
    "compression.type": ("gzip", "snappy", "lz4", "zstd", "uncompressed", "producer", None),
    "cleanup.policy": ("compact", "compact,delete", "delete", None),
    "retention.ms": (str(10**6 * DAY_MS), "-1"),
    "retention.bytes": (str(1 << 30), "-1", None),
}


@dataclass
class Producer:
    """An idempotent one; ids and epochs are what each system gave it."""

    ids: tuple[int, int]
    epochs: tuple[int, int]
    next: dict[int, int] = field(default_factory=dict)
    """The sequence that follows, by partition."""


@dataclass
class ProducersWalk(Lockstep):
    """One topic, and who writes to it."""

    topic: str = field(kw_only=True)
    known: tuple[Known, ...] = KNOWN_OF_LOGS
    now_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    _topic_ids: tuple[Any, Any] = (None, None)
    _leader_epochs: tuple[int, int] = (0, 0)
    _producers: list[Producer] = field(default_factory=list)
    _ends: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    _configs: dict[str, str] = field(default_factory=dict)
    _changes: int = 0
    _recompressed: bool = False
    _stamped: bool = False
    _lied: bool = False

    def _begin(self) -> None:
        """Create the topic, and return when both serve it."""
        created = {"name": self.topic, "num_partitions": -1, "replication_factor": -1}
        placed = [{"partition_index": number, "broker_ids": [ASKED]} for number in range(PARTITIONS + 1)]
        # When records are compacted or expire, and where segments end, is each system's own.
        lasting = {"min.compaction.lag.ms": DAY_MS, "segment.ms": 10**6 * DAY_MS, "retention.ms": -1}
        configs = [{"name": name, "value": str(value)} for name, value in lasting.items()]
        values = {
            "topics": [{**created, "assignments": placed, "configs": configs}],
            "timeout": TEN_SECONDS,
            "validate_only": False,
        }
        for told in both_answer(self.doors, ApiKey.CREATE_TOPICS, 5, lambda _: values):
            assert told["topics"][0]["error_code"] == ErrorCode.NONE, told
        asked = {"topics": [{"name": self.topic, "topic_id": None}], "allow_auto_topic_creation": False,
                 "include_topic_authorized_operations": False}  # fmt: skip
        while True:
            described = [
                told["topics"][0] for told in both_answer(self.doors, ApiKey.METADATA, 12, lambda _: asked)
            ]
            parts = [part for one in described for part in one["partitions"]]
            if (
                len(parts) == 2 * (PARTITIONS + 1)
                and all(part["leader_id"] >= 0 for part in parts)
                and self._is_served()
            ):
                break
        ours, theirs = described
        self._topic_ids = ours["topic_id"], theirs["topic_id"]
        self._leader_epochs = ours["partitions"][0]["leader_epoch"], theirs["partitions"][0]["leader_epoch"]

    def _is_served(self) -> bool:
        parts = [self._of_offsets(number, -1) for number in range(PARTITIONS + 1)]
        values = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": self.topic, "partitions": parts}],
        }
        both = both_answer(self.doors, ApiKey.LIST_OFFSETS, 7, lambda _: values)
        return not any(part["error_code"] for told in both for part in told["topics"][0]["partitions"])

    def _of_offsets(self, number: int, time_ms: int, epoch: int = -1) -> Values:
        return {"partition_index": number, "timestamp": time_ms, "current_leader_epoch": epoch}

    # -- producers

    def _init_producer(self) -> list[str]:
        version = self.version(ApiKey.INIT_PRODUCER_ID)
        before = (
            self.pick(*self._producers) if self._producers and version >= 3 and self.chance(0.5) else None
        )
        by = self.pick(0, 0, 0, 1, -1, -9) if before else 0

        def values(door: int) -> Values:
            return {
                "transactional_id": None, "transaction_timeout": timedelta(seconds=60),
                "producer_id": before.ids[door] if before else -1,
                "producer_epoch": max(-2, before.epochs[door] + by) if before else -1,
            }  # fmt: skip

        def told(door: int, answer: Any) -> Any:
            same = before is not None and answer["producer_id"] == before.ids[door]
            return {**stripped(answer), "producer_id": "the same" if same else answer["producer_id"] >= 0}

        found, ours, theirs = self.ask(
            ApiKey.INIT_PRODUCER_ID, version, values, told, about={"by": by}, until_alike=before is None
        )
        if not found and not ours["error_code"]:
            ids, epochs = (
                (ours["producer_id"], theirs["producer_id"]),
                (ours["producer_epoch"], theirs["producer_epoch"]),
            )
            self._producers.append(Producer(ids, epochs))
        return found

    def _batch(self) -> Batch:
        times = (
            self.now_ms, self.now_ms - 5_000, self.now_ms + 1_000, self.now_ms - 3 * DAY_MS,
            self.now_ms + 2 * DAY_MS,
            0, 1_000, self.now_ms + self.random.randrange(100), *((-1,) if self.chance(0.3) else ()),
        )  # fmt: skip
        return Batch(
            self.pick(1, 1, 2, 3, 5), self.pick(1, 10, 100, 400, 2_000), self.pick(0, 0, 0, 1, 2, 3, 4),
            self.pick(*times), self.chance(0.9),
            self.pick(*SPOILERS, "two", "two") if self.chance(0.15) else None,
        )  # fmt: skip

    def _sequence(self, producer: Producer, number: int, batch: Batch) -> int:
        follows, roll = producer.next.get(number, 0), self.random.random()
        if number not in producer.next and roll < 0.2:
            return LARGEST_SEQUENCE - int(self.pick(0, 1, 3))
        if roll < 0.1:
            return follows + int(self.pick(1, 5, -1))
        if roll < 0.25:
            return max(0, follows - int(self.pick(1, 2, 3, 5, 8, batch.records)))
        return int(self.pick(0, LARGEST_SEQUENCE, -1, -2)) if roll < 0.3 else follows

    def _produce(self) -> list[str]:
        version = self.version(ApiKey.PRODUCE)
        number = self.pick(0, 0, 0, 0, 1, 7)
        topic = self.topic if self.chance(0.98) else "no-such-topic"
        batch = self._batch()
        producer = self.pick(*self._producers) if self._producers and self.chance(0.7) else None
        by = self.pick(1, -1, 2) if producer and self.chance(0.1) else 0
        transactional = None if self.chance(0.98) else "a transaction"
        if transactional or batch.spoilt in STORED_BY_KAFKA or (producer and producer.epochs[0] + by < 0):
            number = ASIDE
        sequence = min(self._sequence(producer, number, batch), LARGEST_SEQUENCE) if producer else -1
        acks = self.pick(1, -1, -1, -1) if self.chance(0.97) else self.pick(2, -2)
        self._lied = self._lied or batch.spoilt in ("another largest time", "delete horizon")

        def values(door: int) -> Values:
            who = (producer.ids[door], producer.epochs[door] + by, sequence) if producer else NOBODY
            part = {"index": number, "records": batch.made(who)}
            data = [{"name": topic, "partition_data": [part]}]
            return {
                "transactional_id": transactional,
                "acks": acks,
                "timeout": TEN_SECONDS,
                "topic_data": data,
            }

        about = {
            "spoilt": batch.spoilt, "codec": batch.codec, "configs": dict(self._configs),
            "transactional": transactional,
            "is_idempotent": producer is not None, "by": by, "sequence": sequence, "acks": acks,
            "is_there": topic == self.topic and number <= PARTITIONS, "now_ms": self.now_ms,
            "epoch": producer.epochs[0] + by if producer else -1, "batch": batch,
        }  # fmt: skip
        found, ours, theirs = self._told_again(version, values, about)
        who = f"{self._producers.index(producer)} epoch {about['epoch']} ({by}) at" if producer else "nobody"
        self.steps[-1].text = (
            f"#{len(self.steps) - 1} PRODUCE {version} {topic}-{number} {batch} acks {acks} {transactional} "
            f"{who} {sequence} {self._configs}"
        )
        if found:
            return [
                f"{self.steps[-1].text}: {one.rpartition(': Muster')[1]}{one.rpartition(': Muster')[2]}"
                for one in found
            ]
        if HUNG_UP not in ours:
            heard = [one["responses"][0]["partition_responses"][0] for one in (ours, theirs)]
            self._learn(heard, number, batch, producer, by, sequence)
        return []

    def _learn(
        self, heard: list[Any], number: int, batch: Batch, producer: Producer | None, by: int, sequence: int
    ) -> None:
        """What is stored now. Raises Parted if it is at one of both alone."""
        if heard[0]["error_code"] or heard[1]["error_code"]:
            # What stands behind a refused batch on its connection is refused as well.
            for door in self.doors:
                door.close()
            if number == ASIDE or (heard[0]["error_code"] and heard[1]["error_code"]):
                return
            raise Parted
        many = batch.records * (2 if batch.spoilt == "two" else 1)
        if producer:
            producer.epochs = producer.epochs[0] + by, producer.epochs[1] + by
            if by:
                producer.next.clear()
            if sequence >= 0:
                producer.next[number] = (sequence + many) % WRAP
        if number != ASIDE:
            self._ends[number] = max(self._ends[number], heard[0]["base_offset"] + many)

    def _told_again(self, version: int, values: Any, about: Values) -> tuple[list[str], Any, Any]:
        """A producer that is not known is sent for its metadata once, and insists."""
        told = _told_of_produce
        found, ours, theirs = self.ask(ApiKey.PRODUCE, version, values, told, about=about)
        if HUNG_UP in ours or not about["is_idempotent"] or about["sequence"] <= 0:
            return found, ours, theirs
        mine, other = (one["responses"][0]["partition_responses"][0]["error_code"] for one in (ours, theirs))
        if mine == ErrorCode.NOT_LEADER_OR_FOLLOWER and not other:
            again = shaped(request_class(ApiKey.PRODUCE, version), values(0))
            ours = self.doors[0].answer(ApiKey.PRODUCE, version, again)
            heard, wanted = told(0, ours), told(1, theirs)
            self.steps[-1].heard = heard
            found = [f"told again: {heard}, Kafka {wanted}"] if heard != wanted else []
        return found, ours, theirs

    def _describe_producers(self) -> list[str]:
        number = self.pick(0, 0, 1, 9)
        values = {"topics": [{"name": self.topic, "partition_indexes": [number]}]}

        def told(door: int, answer: Any) -> Any:
            part = stripped(answer)["topics"][0]["partitions"][0]
            names = {one.ids[door]: number for number, one in reversed(list(enumerate(self._producers)))}
            for one in part["active_producers"]:
                one["producer_id"] = names.get(one["producer_id"], "nobody")
                one["last_timestamp"] = None
            part["active_producers"].sort(key=str)
            return part

        return self.ask(ApiKey.DESCRIBE_PRODUCERS, 0, values, told)[0]

    # -- configs

    def _change(self) -> list[str]:
        """Set or take back one config, and return when both brokers obey it."""
        name = self.pick(*CONFIGS)
        value = self.pick(*CONFIGS[name])
        self._changes += 1
        found = self._set(name, value)
        # What a broker tells of it obeys a moment later; before it hears of the next change.
        found += self._set("delete.retention.ms", str(DAY_MS - self._changes))
        if value is None:
            self._configs.pop(name, None)
        else:
            self._configs[name] = value
        self._stamped = self._stamped or value == "LogAppendTime"
        self._recompressed = self._recompressed or name == "compression.type"
        return found

    def _set(self, name: str, value: str | None) -> list[str]:
        config = {"name": name, "config_operation": 0 if value is not None else 1, "value": value}
        resource = {"resource_type": TOPIC, "resource_name": self.topic}
        values = {"resources": [{**resource, "configs": [config]}], "validate_only": False}
        found = self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, values, lambda _, answer: stripped(answer))[0]
        asked = {"resources": [{**resource, "configuration_keys": [name]}], "include_synonyms": False,
                 "include_documentation": False}  # fmt: skip

        def told(_door: int, answer: Any) -> Any:
            (config,) = answer["results"][0]["configs"]
            return {"value": config["value"], "is_set": config["config_source"] == 1}

        while not found:
            both = both_answer(self.doors, ApiKey.DESCRIBE_CONFIGS, 4, lambda _: asked)
            if all(
                told(0, one)["is_set"] == (value is not None) and value in (None, told(0, one)["value"])
                for one in both
            ):
                break
        return found


def _told_of_produce(_door: int, answer: Any) -> Any:
    part = answer["responses"][0]["partition_responses"][0]
    if part["error_code"]:
        return {"error_code": part["error_code"], "rest": None, "append_time": None}
    rest = {name: part[name] for name in ("base_offset", "log_start_offset") if name in part}
    return {"error_code": 0, "rest": rest, "append_time": {"is_told": part["log_append_time"] is not None}}
