"""This room walks the logs of one topic at random, from a seed, at Muster and at Apache Kafka in step.

Producers, some idempotent, send good and spoilt batches; readers fetch with sessions and without them, ask
for offsets and where epochs end; records are deleted, and the topic's configs change in between.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from muster.kafkawire.api_table import ApiKey, request_class
from tests.beside_kafka.doors import HUNG_UP, Door
from tests.beside_kafka.lockstep import Parted, Values, shaped, stripped
from tests.beside_kafka.log_batches import told_of
from tests.beside_kafka.producers_walk import (
    DAY_MS,
    LARGEST_SEQUENCE,
    NOBODY,
    PARTITIONS,
    STORED_BY_KAFKA,
    TEN_SECONDS,
    ProducersWalk,
)


@dataclass
class Session:
    """A consumer's fetch session; `ids` are what each system called it, `at` what it reads."""

    ids: tuple[int, int] = (0, 0)
    epoch: int = 0
    at: dict[int, int] = field(default_factory=dict)


@dataclass
class LogWalk(ProducersWalk):
    """`readers` are a connection of each for sessions, `doors` those for everything else."""

    readers: tuple[Door, Door] = field(kw_only=True)
    _session: Session = field(default_factory=Session)
    _deleted: set[int] = field(default_factory=set)
    _named_by_id: bool = False

    def walk(self, steps: int) -> list[str]:
        """The differences of the first step that has any; none: all were alike."""
        self._begin()
        asks = (
            (self._produce, 40), (self._fetch, 18), (self._fetch_in_session, 14), (self._offsets, 16),
            (self._delete, 5), (self._init_producer, 6), (self._epoch_end, 4), (self._describe_producers, 4),
            (self._change, 5), (self._produce_unanswered, 4),
        )  # fmt: skip
        try:
            for _ in range(steps):
                (ask,) = self.random.choices([one for one, _ in asks], [weight for _, weight in asks])
                found = ask()
                if found:
                    return found
        except Parted:
            pass
        return []

    # -- readers

    def _read_part(self, number: int, offset: int, at_most: int, door: int, epoch_by: int | None) -> Values:
        stated = -1 if epoch_by is None else self._leader_epochs[door] + epoch_by
        return {
            "partition": number, "fetch_offset": offset, "partition_max_bytes": at_most,
            "log_start_offset": -1,
            "current_leader_epoch": stated, "last_fetched_epoch": -1,
        }  # fmt: skip

    def _somewhere(self, number: int) -> int:
        end = self._ends[number] if number < PARTITIONS else 0
        return int(self.pick(0, end, end + 1, -1, max(0, end - 1), self.random.randrange(end + 1)))

    def _fetched(self, door: int, answer: Any) -> Any:
        parts = [self._fetched_part(one) for topic in answer["responses"] for one in topic["partitions"]]
        names = [topic.get("topic", topic.get("topic_id")) for topic in answer["responses"]]
        known = {self.topic: "it", self._topic_ids[door]: "it"}
        return {
            "error_code": answer.get("error_code", 0), "session": bool(answer.get("session_id")),
            "topics": sorted({known.get(name, "another") for name in names}),
            "parts": {part["partition_index"]: part for part in parts},
        }  # fmt: skip

    def _fetched_part(self, part: Any) -> Any:
        code = part["error_code"]
        shown = {"partition_index": part["partition_index"], "error_code": code, "rest": None}
        if code:
            return {**shown, "batches": told_of(part["records"])}
        rest = stripped(part, ("partition_index", "error_code", "records", "current_leader", "snapshot_id"))
        rest["aborted_transactions"] = rest.get("aborted_transactions") or []
        return {**shown, "rest": rest, "batches": told_of(part["records"])}

    def _fetch(self) -> list[str]:
        # Before version 10 zstd is refused, or not: a difference that is known, and is looked at where it is.
        version = self.version(ApiKey.FETCH)
        numbers = self.pick((0,), (0,), (0,), (1,), (9,), (0, 1), (1, 0), (9, 0))
        at_most, whole = self.pick(1 << 20, 1 << 20, 1, 200, 700, 0), self.pick(1 << 22, 1 << 22, 1, 500, 0)
        offsets, level, least = [self._somewhere(one) for one in numbers], self.pick(0, 1), self.pick(0, 1)
        epoch_by = self.pick(None, None, None, 0, 50)
        named = self.chance(0.97)

        def values(door: int) -> Values:
            pairs = zip(numbers, offsets, strict=True)
            parts = [self._read_part(number, offset, at_most, door, epoch_by) for number, offset in pairs]
            topic = {"topic": self.topic if named else "no-such-topic", "partitions": parts,
                     "topic_id": self._topic_ids[door if named else 1 - door]}  # fmt: skip
            return self._fetch_values(version, [topic], (), whole, level, least, (0, -1))

        about = {
            "recompressed": self._recompressed,
            "several": len(numbers) > 1 and whole < 1_000,
            "lied": self._lied,
        }
        found, _, _ = self.ask(ApiKey.FETCH, version, values, self._fetched, about=about)
        return found

    def _fetch_values(
        self,
        version: int,
        topics: Any,
        forgotten: Any,
        whole: int,
        level: int,
        least: int,
        session: tuple[int, int],
    ) -> Values:
        values = {
            "max_wait": timedelta(0), "min_bytes": least, "max_bytes": whole, "isolation_level": level,
            "topics": topics,
            "session_id": session[0], "session_epoch": session[1], "forgotten_topics_data": forgotten,
            "rack_id": "",
        }  # fmt: skip
        if version < 15:
            values["replica_id"] = -1
        return values

    def _fetch_in_session(self) -> list[str]:
        """Go on with the session, begin one, end it, or state one that is not so."""
        version = self.pick(12, 13, 16, 16, 11, 10)
        session = self._session
        roll = self.random.random()
        begins = not session.ids[0] or roll < 0.08
        by, stranger, closes = 0, False, False
        if not begins:
            by = self.pick(1, 5, -1 if session.epoch > 1 else 7) if roll < 0.14 else 0
            stranger, closes = 0.14 < roll < 0.18, 0.18 < roll < 0.22
        if begins:
            self._named_by_id = version >= 13
        elif self._named_by_id != (version >= 13):
            version = 16 if self._named_by_id else 12
        numbers = self.random.sample((0, 1), 2) if begins else [one for one in (0, 1) if self.chance(0.4)]
        wanted = {number: self._somewhere(number) for number in numbers}
        if self.chance(0.1):
            wanted[9] = 0
        dropped = [one for one in session.at if one not in wanted and self.chance(0.15)] if not begins else []
        # Which of several partitions has its first batch whole, however large, is each system's own turn.
        at_most = 1 << 20

        def values(door: int) -> Values:
            named = {"topic": self.topic, "topic_id": self._topic_ids[door]}
            parts = [
                self._read_part(number, offset, at_most, door, None) for number, offset in wanted.items()
            ]
            topics = [{**named, "partitions": parts}] if parts else []
            forgotten = [{**named, "partitions": dropped}] if dropped else []
            stated = (0, 0) if begins else (session.ids[door], -1 if closes else session.epoch + by)
            if stranger:
                stated = (stated[0] ^ 0x5555, stated[1])
            return self._fetch_values(version, topics, forgotten, 1 << 22, 0, 0, stated)

        about = {"recompressed": self._recompressed, "several": False, "lied": self._lied}
        found, ours, theirs = self.ask(
            ApiKey.FETCH, version, values, self._fetched, about=about, doors=self.readers
        )
        if found or HUNG_UP in ours or ours.get("error_code"):
            return found
        if begins:
            self._session = Session((ours["session_id"], theirs["session_id"]), 1, dict(wanted))
        elif closes:
            self._session = Session()
        else:
            session.epoch = session.epoch + 1 if session.epoch < LARGEST_SEQUENCE else 1
            session.at = {one: at for one, at in {**session.at, **wanted}.items() if one not in dropped}
        return []

    # -- offsets

    def _offsets(self) -> list[str]:
        version, number = self.version(ApiKey.LIST_OFFSETS), self.pick(0, 0, 0, 1, 9)
        now_ms = self.now_ms
        time_ms = self.pick(
            -1, -2, -3, -4, -5, -6, -7, now_ms, now_ms - 5_000, now_ms + 1, now_ms + 2 * DAY_MS, 0, 1_000,
            1_001,
            now_ms + 10**10,
        )  # fmt: skip
        epoch_by, level = self.pick(None, None, None, 0, 50), self.pick(0, 1)

        def values(door: int) -> Values:
            epoch = -1 if epoch_by is None else self._leader_epochs[door] + epoch_by
            parts = [self._of_offsets(number, time_ms, epoch)]
            return {
                "replica_id": -1,
                "isolation_level": level,
                "topics": [{"name": self.topic, "partitions": parts}],
            }

        def told(door: int, answer: Any) -> Any:
            part = dict(answer["topics"][0]["partitions"][0])
            if part.get("leader_epoch", -1) >= 0:
                part["leader_epoch"] -= self._leader_epochs[door]
            if isinstance(part.get("timestamp"), int) and part["timestamp"] > now_ms and self._stamped:
                part["timestamp"] = "when it came"
            return {"error_code": part.pop("error_code"), "rest": part}

        about = {"time_ms": time_ms, "lied": self._lied, "deleted": number in self._deleted}
        found, _, _ = self.ask(ApiKey.LIST_OFFSETS, version, values, told, about=about)
        return found

    def _produce_unanswered(self) -> list[str]:
        """acks=0: both stored it, or both hang up."""
        version, number, batch = self.version(ApiKey.PRODUCE), self.pick(0, 0, 1, 9), self._batch()
        data = [{"name": self.topic, "partition_data": [{"index": number, "records": batch.made(NOBODY)}]}]
        said = {"transactional_id": None, "acks": 0, "timeout": TEN_SECONDS, "topic_data": data}
        told_it = shaped(request_class(ApiKey.PRODUCE, version), said)
        for door in self.doors:
            door.tell(ApiKey.PRODUCE, version, told_it)
        parts = [self._of_offsets(number, -1)]
        values = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": self.topic, "partitions": parts}],
        }
        about = {"batch": batch, "spoilt": batch.spoilt, "unanswered": True}
        found, ours, _ = self.ask(
            ApiKey.LIST_OFFSETS, 3, values, lambda _, answer: stripped(answer), about=about
        )
        self.steps[-1].text += f" behind PRODUCE {version} {batch} without acks {self._configs}"
        if found and batch.spoilt in STORED_BY_KAFKA:
            raise Parted
        if not found and HUNG_UP not in ours:
            (told,) = ours["topics"][0]["partitions"]
            if not told["error_code"]:
                self._ends[number] = told["offset"]
        return found

    def _delete(self) -> list[str]:
        version, number = self.version(ApiKey.DELETE_RECORDS), self.pick(0, 0, 0, 1, 9)
        offset = self.pick(-1, -2, self._somewhere(number), self._somewhere(number))
        parts = [{"partition_index": number, "offset": offset}]
        values = {"timeout": TEN_SECONDS, "topics": [{"name": self.topic, "partitions": parts}]}

        def told(_door: int, answer: Any) -> Any:
            part = dict(answer["topics"][0]["partitions"][0])
            return {"error_code": part.pop("error_code"), "rest": part}

        found, ours, _ = self.ask(ApiKey.DELETE_RECORDS, version, values, told)
        if ours["topics"][0]["partitions"][0]["low_watermark"] > 0:
            self._deleted.add(number)
        return found

    def _epoch_end(self) -> list[str]:
        version, number = self.version(ApiKey.OFFSET_FOR_LEADER_EPOCH), self.pick(0, 0, 1, 9)
        by, epoch_by = self.pick(0, 50, None), self.pick(None, None, 0, 50)

        def values(door: int) -> Values:
            now = self._leader_epochs[door]
            part = {"partition": number, "leader_epoch": -1 if by is None else now + by,
                    "current_leader_epoch": -1 if epoch_by is None else now + epoch_by}  # fmt: skip
            return {"replica_id": -1, "topics": [{"topic": self.topic, "partitions": [part]}]}

        def told(door: int, answer: Any) -> Any:
            part = dict(answer["topics"][0]["partitions"][0])
            if part["leader_epoch"] >= 0:
                part["leader_epoch"] -= self._leader_epochs[door]
            return {"error_code": part.pop("error_code"), "rest": part}

        return self.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, values, told, about={"epoch_by": epoch_by})[
            0
        ]
