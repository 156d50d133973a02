"""This room is the road of `make demo`: through the whole product, with real parts and real kills."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from standalone.children import end, launch
from standalone.demo import evidence, flights
from standalone.demo.calendar_of_events import Event, Plan, day
from standalone.demo.evidence import Check
from standalone.demo.moving import Drain
from standalone.demo.producing import Replay
from standalone.demo.rest import Rest, wait_until
from standalone.demo.story import elections_of
from standalone.demo.summary import Account
from standalone.ending import End
from standalone.processes import ROOT
from standalone.stack import Stack

TOPIC, GROUP, PARTITIONS, REPLICAS = "flights", "departures", 6, 3
PARTITIONS_LATER = 8
BROKERS = 4
DRAINED = 3
KAFKA_GROUP, KAFKA_CLIENT = "board", "dora"
DAYS_OF_THE_YEAR = 365.0
SETTLE_SECONDS = 60.0
PIPELINE_SECONDS = 300.0
OLDEST_JAVA = 17
SLOW_DAYS_A_SECOND = 0.25
RELATIVE_ERROR = 1e-9


@dataclass(frozen=True, slots=True)
class Wishes:
    """How the demo was asked for: eight days a second and every flight unless told otherwise."""

    days_a_second: float = 8.0
    flights: int = 0
    exit_after_summary: bool = False


@dataclass(slots=True)
class Road:
    """One run of the demo over a started stack; `ended` is set when a person wants it to end."""

    stack: Stack
    wishes: Wishes
    say: Callable[[str], None]
    ended: End
    account: Account = field(default_factory=Account)
    drain: Drain | None = None

    def walk(self) -> bool:
        """Walk all steps; True if every check was kept. Returns early, False, when a person ended it."""
        year = flights.load(self.wishes.flights or None)
        rest = Rest(self.stack.info["rest"], self.stack.info["token"])
        try:
            self._create_topic()
            for name in ("ann", "ben"):
                self.say(self._start_consumer(name))
            self.say(self._start_kafka_consumer())
            replay = self._replay(year, rest)
            if self.ended.is_set():
                return False
            self._check(year, replay, rest)
            self._pipeline(year)
            self._tell(rest)
            kept = all(check.kept for check in self.account.checks)
            if not self.wishes.exit_after_summary:
                self._go_on(year)
            return kept
        finally:
            rest.close()

    def _create_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.stack.info["bootstrap"], "log_level": 2})
        wanted = NewTopic(TOPIC, PARTITIONS, REPLICAS, config={"min.insync.replicas": "2"})
        admin.create_topics([wanted], operation_timeout=30)[TOPIC].result(30)
        self.say(f"2  topic {TOPIC}: {PARTITIONS} partitions, {REPLICAS} replicas, min.insync.replicas 2")

    # --- the year -------------------------------------------------------------------------------------------

    def _replay(self, year: list[flights.Flight], rest: Rest) -> Replay:
        where = [flights.YEAR_STARTS, 0]

        def progress(at: object, count: int) -> None:
            where[:] = [at, count]

        bootstrap = self.stack.info["bootstrap"]
        replay = Replay(bootstrap, TOPIC, year, self.wishes.days_a_second, progress)
        plan = Plan(
            Event(day(4), lambda: self._start_consumer("cleo")),
            Event(day(6), self._kill_a_broker),
            Event(day(8), self._start_the_broker),
            Event(day(9), self._kill_a_consumer),
            Event(day(9, 15), self._add_partitions),
            Event(day(10), lambda: self._begin_to_drain(rest)),
        )
        self.say(f"3  replaying {len(year)} flights of 2013 at {self.wishes.days_a_second:g} days a second")
        replay.start()
        month = 0
        while replay.is_alive() and not self.ended.wait(0.05):
            passed = time.monotonic() - (replay.started_at or time.monotonic())
            days = min(passed * self.wishes.days_a_second, DAYS_OF_THE_YEAR)
            calendar = flights.YEAR_STARTS + timedelta(days=days)
            for event in plan.due(calendar):
                self.say(f"   {event.day:%e %b}  {event.act()}")
            if calendar.month != month and calendar < flights.YEAR_ENDS:
                month = calendar.month
                self.say(f"   {bar(calendar.month)} {calendar:%b}  {where[1]:>7} flights sent")
        if self.ended.is_set():
            replay.stop()
        replay.join()
        for event in plan.due(flights.YEAR_ENDS):
            self.say(f"   {event.day:%e %b}  {event.act()}")
        self.account.produced = len(replay.produced) + len(replay.placeless)
        self.account.produce_seconds = replay.seconds
        return replay

    def _start_consumer(self, name: str) -> str:
        info = self.stack.info
        self._evidence.mkdir(exist_ok=True)
        command = [
            *(sys.executable, "-m", "standalone.demo.consumer"),
            *("--group", GROUP, "--topic", TOPIC, "--consumer-id", name),
            *("--nodes", ",".join(info["nodes"]), "--evidence", str(self._evidence / name)),
        ]
        self.stack.run_client(f"consumer-{name}", command, {"MUSTER_TOKEN": info["consumer_token"]})
        return f"consumer {name} starts"

    def _start_kafka_consumer(self) -> str:
        self._kafka_evidence.mkdir(exist_ok=True)
        command = [
            *(sys.executable, "-m", "standalone.demo.kafka_consumer"),
            *("--group", KAFKA_GROUP, "--topic", TOPIC, "--client-id", KAFKA_CLIENT),
            *("--bootstrap", self.stack.info["bootstrap"]),
            *("--evidence", str(self._kafka_evidence / KAFKA_CLIENT)),
        ]
        self.stack.run_client(f"consumer-{KAFKA_CLIENT}", command, {})
        return f"consumer {KAFKA_CLIENT} starts: librdkafka, in group {KAFKA_GROUP}"

    def _kill_a_consumer(self) -> str:
        self.stack.kill("consumer-ben")
        return "consumer ben is killed with kill -9"

    def _kill_a_broker(self) -> str:
        self.account.broker_killed_at = datetime.now(UTC)
        self.stack.kill("broker-2")
        return "broker 2 is killed with kill -9"

    def _start_the_broker(self) -> str:
        self.stack.start_process("broker-2")
        return "broker 2 starts again"

    def _add_partitions(self) -> str:
        admin = AdminClient({"bootstrap.servers": self.stack.info["bootstrap"], "log_level": 2})
        wanted = NewPartitions(TOPIC, PARTITIONS_LATER)
        admin.create_partitions([wanted], operation_timeout=30)[TOPIC].result(30)
        return f"{PARTITIONS_LATER - PARTITIONS} partitions are added to the topic"

    def _begin_to_drain(self, rest: Rest) -> str:
        self.drain = Drain(rest, DRAINED, self.ended, self.say)
        self.drain.start()
        return f"broker {DRAINED} is to be drained: a worker computes a plan"

    # --- checks ---------------------------------------------------------------------------------------------

    def _check(self, year: list[flights.Flight], replay: Replay, rest: Rest) -> None:
        self.say("6  waiting until everything is moved, consumed, committed and in sync")
        assert self.drain is not None
        self.drain.join()
        ends = self._ends()
        started = time.monotonic()

        def all_committed() -> bool:
            return all(rest.committed(group, TOPIC) == ends for group in (GROUP, KAFKA_GROUP))

        wait_until(lambda: all_committed() or self.ended.is_set(), SETTLE_SECONDS)
        wait_until(lambda: all_in_sync(rest) or self.ended.is_set(), SETTLE_SECONDS)
        self.account.settle_seconds = time.monotonic() - started
        seen = {path.name: evidence.read(path) for path in sorted(self._evidence.iterdir())}
        by_kafka = {path.name: evidence.read(path) for path in sorted(self._kafka_evidence.iterdir())}
        self.account.consumed = {name: len(lines) for name, lines in (seen | by_kafka).items()}
        rows = rest.partitions(TOPIC)
        replicas = {
            row["partition"]: {f"broker {number}": self._broker_folder(number) for number in row["replicas"]}
            for row in rows
        }
        isr = {row["partition"]: row["isr"] for row in rows}
        self.account.checks += [
            Check(
                "every flight was acknowledged",
                not replay.refused,
                "; ".join(replay.refused[:3]) or "none refused",
            ),
            evidence.every_record_was_consumed(replay.produced, replay.placeless, seen, len(year)),
            evidence.order_holds_within_each_tenure(seen),
            evidence.committed_to_the_end(rest.committed(GROUP, TOPIC), ends),
            *self._kafka_checks(by_kafka, replay, rest.committed(KAFKA_GROUP, TOPIC), ends, len(year)),
            evidence.all_in_sync(isr, REPLICAS),
            evidence.logs_are_equal(TOPIC, replicas),
            self.drain.check(rows),
            grown(isr),
        ]

    @staticmethod
    def _kafka_checks(
        seen: dict[str, list[evidence.Seen]],
        replay: Replay,
        committed: dict[int, int],
        ends: dict[int, int],
        count: int,
    ) -> list[Check]:
        """The same promises, kept to a client that knows nothing of Muster."""
        checks = (
            evidence.every_record_was_consumed(replay.produced, replay.placeless, seen, count),
            evidence.committed_to_the_end(committed, ends),
        )
        return [Check(f"librdkafka: {one.promise}", one.kept, one.detail) for one in checks]

    def _ends(self) -> dict[int, int]:
        reader = Consumer(
            {"bootstrap.servers": self.stack.info["bootstrap"], "group.id": "ends", "log_level": 2}
        )
        try:
            return {
                partition: reader.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=30)[1]
                for partition in range(PARTITIONS_LATER)
            }
        finally:
            reader.close()

    @property
    def _evidence(self) -> Path:
        return self.stack.home / "evidence"

    @property
    def _kafka_evidence(self) -> Path:
        return self.stack.home / "evidence-of-kafka-clients"

    def _broker_folder(self, number: int) -> Path:
        return self.stack.home / f"broker-{number}" / "partitions"

    # --- pipeline -------------------------------------------------------------------------------------------

    def _pipeline(self, year: list[flights.Flight]) -> None:
        promise = "Spark's table equals the one computed from the CSV"
        if not has_java() or not (ROOT / "pipeline" / "jars" / ".fetched").exists():
            self.say("7  skipped: install Java 17 and Maven, then run `make demo` again")
            self.account.skipped.append(promise)
            return
        self.say("7  PySpark reads the topic through its own Kafka source")
        started = time.monotonic()
        log = self.stack.home / "log" / "pipeline.log"
        # Spark leaves files where it works and where it is started.
        scratch = self.stack.home / "spark"
        scratch.mkdir(exist_ok=True)
        job = [sys.executable, "-m", "pipeline.jobs.departures", "--bootstrap", self.stack.info["bootstrap"]]
        environment = os.environ | {
            "DATABASE_URL": self.stack.info["database_url"],
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_DIRS": str(scratch),
        }
        failure = self._run_to_its_end([*job, "--topic", TOPIC], scratch, environment, log)
        self.account.pipeline_seconds = time.monotonic() - started
        if failure:
            self.account.checks.append(Check(promise, False, failure))
            return
        self.account.checks.append(self._compare(promise, flights.routes_by_hour(year)))

    def _run_to_its_end(self, job: list[str], folder: Path, environment: dict[str, str], log: Path) -> str:
        """Run the job; why it failed, or nothing. It is ended when a person ends the demo."""
        running = launch(job, folder=folder, log=log, environment=environment)
        try:
            code = running.wait(PIPELINE_SECONDS)
        except subprocess.TimeoutExpired:
            return f"the job did not end within {PIPELINE_SECONDS:.0f} s, see {log}"
        finally:
            end(running, signal.SIGTERM)
        return f"the job failed with exit code {code}, see {log}" if code else ""

    def _compare(self, promise: str, expected: dict[tuple[str, str, int], flights.RouteHour]) -> Check:
        with psycopg.connect(self.stack.info["database_url"]) as connection:
            rows = connection.execute(
                "SELECT origin, dest, hour, scheduled, departures, departure_delay_minutes"
                " FROM pipeline_route_hour"
            ).fetchall()
        found = {(row[0], row[1], row[2]): flights.RouteHour(row[3], row[4], row[5]) for row in rows}
        wrong = [key for key in expected.keys() | found.keys() if not same(expected.get(key), found.get(key))]
        detail = f"{len(wrong)} rows differ: {wrong[:3]}" if wrong else f"{len(found)} rows"
        return Check(promise, not wrong and len(rows) == len(found) > 0, detail)

    # --- the end --------------------------------------------------------------------------------------------

    def _tell(self, rest: Rest) -> None:
        self.account.rebalances = rest.rebalances(GROUP)
        self.account.elections = elections_of(rest.turns(lane="controller"))
        for line in self.account.lines():
            self.say(line)

    def _go_on(self, year: list[flights.Flight]) -> None:
        self.say("8  the year goes on slowly, so that the pages live; Ctrl-C ends everything")
        while not self.ended.is_set():
            replay = Replay(
                self.stack.info["bootstrap"], TOPIC, year, SLOW_DAYS_A_SECOND, lambda at, count: None
            )
            replay.start()
            while replay.is_alive() and not self.ended.wait(0.2):
                pass
            replay.stop()
            replay.join(5)


def has_java() -> bool:
    """Whether the Java that Spark would start is new enough for it."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        return False
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    return found is not None and int(found.group(1)) >= OLDEST_JAVA


def same(one: flights.RouteHour | None, other: flights.RouteHour | None) -> bool:
    """Equal counts, and means that differ at most by how floating point adds up."""
    if one is None or other is None or (one.scheduled, one.departures) != (other.scheduled, other.departures):
        return False
    if one.mean_delay_minutes is None or other.mean_delay_minutes is None:
        return one.mean_delay_minutes is other.mean_delay_minutes
    return abs(one.mean_delay_minutes - other.mean_delay_minutes) <= RELATIVE_ERROR * max(
        1.0, abs(one.mean_delay_minutes)
    )


def all_in_sync(rest: Rest) -> bool:
    """Whether each partition of the topic has all its replicas in sync."""
    rows = rest.partitions(TOPIC)
    return len(rows) == PARTITIONS_LATER and all(len(row["isr"]) == REPLICAS for row in rows)


def grown(in_sync: Mapping[int, object]) -> Check:
    """Whether the topic has the partitions that were added."""
    promise = "partitions were added while flights were sent"
    return Check(promise, len(in_sync) == PARTITIONS_LATER, f"{PARTITIONS}, then {len(in_sync)}")


def bar(month: int) -> str:
    """Twelve cells of which `month` are full."""
    return "█" * month + "░" * (12 - month)
