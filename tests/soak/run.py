"""This room is `make soak`: a whole stack, 200 members, a seeded plan of faults, and then the account.

python -m tests.soak.run --minutes 10 [--seed 1]
"""

import argparse
import contextlib
import json
import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import redis
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from standalone.children import StartError
from standalone.ending import EndRequested, do_not_disturb, end_with_parent, listen_for_the_end
from standalone.folder import remove
from standalone.stack import Stack
from standalone.supervision import NotRunning
from standalone.surroundings import keep_what_reaches_a_stack
from tests.soak.faults import Faults
from tests.soak.machine import OURS_BELOW, Machine
from tests.soak.memory import Memory
from tests.soak.plan import plan
from tests.soak.reading import WholeLog
from tests.soak.seen import unread

TOPIC, PARTITIONS, NODES, BROKERS, WORKERS = "soak", 24, 2, 3, 2
RECORDS_A_SECOND = 60
KEYS = 97
STABLE_WITHIN_S = 120.0
DRAINED_WITHIN_S = 180.0
CAST = {
    "sdk": ("sdk", 2, 12),
    "raw-native": ("raw native", 5, 14),
    "raw-classic": ("raw classic", 4, 15),
    "librdkafka": ("librdkafka", 1, 10),
    "librdkafka-sticky": ("librdkafka", 1, 8),
    "librdkafka-static": ("librdkafka", 1, 8),
    "aiokafka": ("aiokafka", 2, 7),
    "kafka-python": ("kafka-python", 1, 6),
}
"""Of each name: the kind of client, how many groups, how many members of each: 200 in all."""

PROCESSES = (
    ("sdk",),
    ("raw-native",),
    ("raw-classic",),
    ("librdkafka", "librdkafka-sticky", "librdkafka-static", "kafka-python"),
    ("aiokafka",),
)
OURS_BY_NATURE = ("sdk", "raw-native", "raw-classic")
"""Clients that never stop answering: the others' libraries may, while they look for a coordinator."""

STALL_S = 2.0
"""A process of clients that did not get the processor for so long may have missed a session by itself."""

MISTAKES = ('"level": "error"', '"level": "critical"', "Traceback")
"""Celery logs tracebacks when its Redis goes: of workers they are told, not judged."""

ENDINGS = {0: "every promise was kept", 1: "not every promise was kept", 130: "ended early"}
"""By exit code."""

SETTINGS = {"MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS": "500"}


class Broken(Exception):
    """A promise that was not kept."""


class Writer:
    """Writes keyed, numbered records, and keeps which of them were acknowledged, and where."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.given_up = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._ending.wait(10 / RECORDS_A_SECOND):
            for _ in range(10):
                with contextlib.suppress(BufferError):
                    key = b"customer-%d" % (number % KEYS)
                    self._producer.produce(TOPIC, key=key, value=b"%d" % number, on_delivery=self._told)
                    number += 1
            self._producer.poll(0)

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition(), message.offset()] = message.value()
        else:
            self.given_up += 1

    def end(self) -> None:
        """Return when each record is acknowledged or given up."""
        self._ending.set()
        self._thread.join()
        self._producer.flush(90)


class Soak:
    """One run over a stack that is ready."""

    def __init__(self, stack: Stack, seed: int, minutes: float) -> None:
        self.stack = stack
        self.seed = seed
        self.lasts_s = minutes * 60
        self.groups = [f"{name}-{number}" for name, (_, many, _) in CAST.items() for number in range(many)]
        self.broken: list[str] = []
        self._machine = Machine()
        self._folder = stack.home.parent / "soak-clients"

    def run(self) -> bool:
        """True if every promise was kept."""
        self._create_topic()
        writer = Writer(self.stack.info["bootstrap"])
        self._start_clients()
        self._wait("every group is Stable at the start", self._all_stable, STABLE_WITHIN_S * 2)
        memory = Memory(self.stack)
        memory.start()
        faults = Faults(self.stack, plan(self.seed, self.lasts_s, NODES, BROKERS, WORKERS))
        faults.play(self.lasts_s, say)
        say("no faults any more")
        began = time.monotonic()
        writer.end()
        say(f"{len(writer.acknowledged)} records acknowledged, {writer.given_up} given up")
        log = WholeLog(self.stack.info["bootstrap"], TOPIC, PARTITIONS)
        self._wait("every group is Stable", self._all_stable, STABLE_WITHIN_S)
        say(f"every group is Stable after {time.monotonic() - began:.0f} s")
        self._wait(
            "every group has committed what the log holds", lambda: self._drained(log), DRAINED_WITHIN_S
        )
        memory.stop()
        log.close()
        self._account(writer, log)
        self._expelled(faults)
        self.broken += memory.judged(say, strict=self.lasts_s >= 300)
        self._logs()
        return not self.broken

    # --- before ---------------------------------------------------------------------------------------------

    def _create_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.stack.info["bootstrap"], "log_level": 2})
        wanted = NewTopic(TOPIC, PARTITIONS, BROKERS, config={"min.insync.replicas": "2"})
        admin.create_topics([wanted], operation_timeout=30)[TOPIC].result(30)

    def _start_clients(self) -> None:
        info = self.stack.info
        self._folder.mkdir(exist_ok=True)
        for number, names in enumerate(PROCESSES):
            members = []
            for name in names:
                kind, many, members_each = CAST[name]
                for group in (f"{name}-{each}" for each in range(many)):
                    members.append((kind, group, [f"{group}-{one:02}" for one in range(members_each)]))
            specification = {
                "bootstrap": info["bootstrap"],
                "nodes": info["nodes"],
                "topic": TOPIC,
                "partitions": PARTITIONS,
                "members": members,
                "tells": str(self._folder / f"{number}.told"),
            }
            path = self._folder / f"{number}.json"
            path.write_text(json.dumps(specification))
            command = [sys.executable, "-m", "tests.soak.clients", str(path)]
            environment = {
                "MUSTER_TOKEN": info["consumer_token"],
                "DJANGO_SETTINGS_MODULE": "config.settings",
            }
            self.stack.run_client(f"clients-{number}", command, environment)
        everybody = sum(many * each for _, many, each in CAST.values())
        say(f"{everybody} members of {len(self.groups)} groups start")

    # --- at the end -----------------------------------------------------------------------------------------

    def _wait(self, what: str, condition: Callable[[], str], within_s: float) -> None:
        """`condition` says what is missing, "" when nothing is."""
        give_up_at = time.monotonic() + within_s
        while missing := condition():
            if time.monotonic() > give_up_at:
                raise Broken(f"not within {within_s:.0f} s: {what}; missing: {missing}")
            time.sleep(1)

    def _all_stable(self) -> str:
        phases = dict(self._rows("SELECT name, phase FROM consumer_group"))
        members = dict(self._rows(_MEMBERS))
        wanted = {f"{name}-{n}": each for name, (_, many, each) in CAST.items() for n in range(many)}
        return ", ".join(
            f"{group} is {phases.get(group)} with {members.get(group, 0)} of {many}"
            for group, many in wanted.items()
            if phases.get(group) != "Stable" or members.get(group) != many
        )

    def _drained(self, log: WholeLog) -> str:
        committed = {(group, number): offset for group, number, offset in self._rows(_OFFSETS)}
        behind = [
            f"{group} {number}: {committed.get((group, number))} of {end}"
            for group in self.groups
            for number, end in enumerate(log.ends())
            if committed.get((group, number), 0) != end
        ]
        return f"{len(behind)} partitions, {behind[:3]}" if behind else ""

    def _account(self, writer: Writer, log: WholeLog) -> None:
        for place, value in writer.acknowledged.items():
            number, offset = place
            if offset >= len(log.values[number]) or log.values[number][offset] != value:
                self.broken.append(f"the record acknowledged at {number}:{offset} is not there")
        told = self._told_after(time.time())
        say(f"{'group':<24}{'read':>9}{'missed':>8}{'wrong':>7}")
        for group in self.groups:
            good, missed, wrong = unread(log.values, told, group)
            say(f"{group:<24}{good:>9}{missed:>8}{wrong:>7}")
            if missed or wrong:
                self.broken.append(f"{group} missed {missed} records and read {wrong} wrongly")
        for number, one in enumerate(told):
            names = ", ".join(PROCESSES[number])
            say(f"{names}: {one['joins']} joins, longest gap {one['largest_gap_s']:.1f} s")
            for failure in one["failures"][:10]:
                say(f"    {failure}")
            self.broken += one["disorders"]

    def _told_after(self, at: float) -> list[dict[str, Any]]:
        """What each process of clients told last, not before that moment."""
        paths = [self._folder / f"{number}.told" for number in range(len(PROCESSES))]

        def missing() -> str:
            return ", ".join(path.name for path in paths if not path.exists() or _read(path)["at"] < at)

        self._wait("each process of clients tells what it saw", missing, 60)
        return [_read(path) for path in paths]

    def _expelled(self, faults: Faults) -> None:
        """Sessions that ended although nobody left: told, and no promise of ours where the client stalled."""
        say(f"others took {self._machine.on_average:.0%} of the machine")
        gaps = {
            name: one["largest_gap_s"]
            for number, one in enumerate(self._told_after(0))
            for name in PROCESSES[number]
        }
        told: Counter[str] = Counter()
        for group, member, why, at in self._rows(_REMOVED):
            name = group.rpartition("-")[0]
            others = self._machine.others(at.timestamp())
            stalled = gaps.get(name, 0.0) >= STALL_S or others > OURS_BELOW
            around = f"{faults.around(at.timestamp())}; others took {others:.0%} of the machine"
            told[f"{group}: {why}; {around}"] += 1
            if name in OURS_BY_NATURE and not stalled:
                self.broken.append(f"{member} of {group} was removed ({why}) and had not missed its session")
        for what, count in told.items():
            say(f"{count} removed from {what}")

    def _logs(self) -> None:
        """An outage is told by warnings; an error or a traceback is a mistake of ours."""
        for row in self.stack.info["processes"]:
            if row["role"] not in ("node", "broker", "web", "worker"):
                continue
            lines = Path(row["log"]).read_text(errors="replace").splitlines()
            mistakes = [line for line in lines if any(sign in line for sign in MISTAKES)]
            for line in mistakes[:3]:
                say(f"{row['name']}: {line[:300]}")
            if mistakes and row["role"] != "worker":
                self.broken.append(f"{row['name']} logged {len(mistakes)} errors")

    def _rows(self, question: str) -> "list[Any]":
        with psycopg.connect(self.stack.database_url, connect_timeout=5) as connection:
            return connection.execute(question).fetchall()


_MEMBERS = """
SELECT group_name, count(*) FROM
  (SELECT group_name FROM group_member UNION ALL SELECT group_name FROM classic_member) AS everybody
GROUP BY group_name
"""
_OFFSETS = "SELECT group_name, partition, committed_offset FROM committed_offset"
_REMOVED = """
SELECT key, record ->> 'member_id', record ->> 'why', at
FROM journal, jsonb_array_elements(records) AS record
WHERE record ->> 'record' = 'MemberRemoved' AND record ->> 'why' NOT LIKE 'left%' ORDER BY at
"""


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def say(line: str) -> None:
    """Print a line at once, with the time since the start."""
    print(f"{time.monotonic() - _BEGAN:7.1f}  {line}", flush=True)


_BEGAN = time.monotonic()


@contextlib.contextmanager
def a_stack(home: Path) -> Iterator[Stack]:
    """A stack that is ready; however this ends, nothing of it runs on."""
    stack = Stack(home, nodes=NODES, brokers=BROKERS, workers=WORKERS, environment=SETTINGS)
    try:
        stack.start(lambda line: None)
        yield stack
    finally:
        do_not_disturb()
        stack.stop()


def _prepare() -> None:
    """A stack's database is prepared in the process that starts it."""
    keep_what_reaches_a_stack(os.environ)
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    import django

    django.setup()


def main(arguments: list[str]) -> int:
    """0: every promise was kept; 1: not; 130: somebody ended it."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.run")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--keep", action="store_true", help="keep the stack's folder, to read its logs")
    asked = parser.parse_args(arguments)
    seed = asked.seed or secrets.randbelow(10_000) + 1
    say(f"seed {seed}; replay: make soak MINUTES={asked.minutes:g} SEED={seed}")
    _prepare()
    home = Path(tempfile.mkdtemp(prefix="muster-soak-")) / "home"
    end_with_parent(os.environ.get("MAKELEVEL"))
    listen_for_the_end()
    code = 1
    try:
        with a_stack(home) as stack:
            say(f"the stack is ready in {home}")
            soak = Soak(stack, seed, asked.minutes)
            try:
                code = 0 if soak.run() else 1
            except (Broken, psycopg.Error, redis.RedisError) as problem:
                soak.broken.append(str(problem))
            for line in soak.broken[:30]:
                say(f"BROKEN: {line}")
    except EndRequested:
        say("ended by somebody")
        code = 130
    except (StartError, NotRunning) as problem:
        say(f"BROKEN: {problem}")
    finally:
        left = psutil.Process().children(recursive=True)
        if left:
            code = 1
            say(f"BROKEN: left behind: {', '.join(str(one) for one in left)}")
        keep = asked.keep or code == 1
        if keep:
            say(f"logs are kept in {home}/log")
        else:
            remove(home)
            shutil.rmtree(home.parent, ignore_errors=True)
    say(f"seed {seed}: {ENDINGS[code]}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
