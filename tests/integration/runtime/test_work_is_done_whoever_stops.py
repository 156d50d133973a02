"""Work offered in a turn is done by a worker, and also when the worker or Redis is stopped in the middle."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from controller import processes
from kafkaserver.version import own_version
from runtime import work
from runtime.postgres import PostgresLink, open_connection
from standalone.redis import Redis
from tests.integration.runtime.conftest import ROOT, CounterNode, Truth, wait_for

LANE = "coordinator/0"
KEY = "work-departures"
PUBLISH_AN_HOUR_BEHIND = """
import datetime, sys, django
django.setup()
from config.celery import app
app.set_default()
now = app.now
app.now = lambda: now() - datetime.timedelta(hours=1)
from runtime.publishing import ask_celery
ask_celery(sys.argv[1])
"""
PUBLISH_EACH = """
import sys, django
django.setup()
from config.celery import app
app.set_default()
from runtime import publishing
publishing.QUEUED_MAX, publishing.FORGET_EVERY = 2, 5
for item in sys.argv[1:]:
    publishing.ask_celery(item)
"""


class Worker:
    """A real Celery worker with one child."""

    def __init__(self, log: Path, failpoints: str = "") -> None:
        environment = os.environ | {"MUSTER_TEST": "1", "MUSTER_FAILPOINTS": failpoints}
        command = [sys.executable, "-m", "celery", "-A", "config", "worker", "--concurrency=1", "-l", "INFO"]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, "--without-gossip", "--without-mingle", "--without-heartbeat"],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=output,
            )
        self.log = log

    def wait_ready(self) -> None:
        wait_for(lambda: b"ready." in self.log.read_bytes(), "the worker is ready")

    def connections_lost(self) -> int:
        """How often it has said that it asks Redis anew."""
        return self.log.read_bytes().count(b"Connection to broker lost")

    def stopped_child(self) -> psutil.Process | None:
        """The child that a failpoint has stopped."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            if child.status() == psutil.STATUS_STOPPED:
                return child
        return None

    def kill(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                child.kill()
        self.process.kill()
        self.process.wait(60)


@pytest.fixture
def start_worker(truth: Truth, redis_server: Redis, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def start(failpoints: str = "") -> Worker:
        workers.append(Worker(tmp_path / f"worker-{len(workers)}.log", failpoints))
        return workers[-1]

    yield start
    for worker in workers:
        worker.kill()


def states(truth: Truth) -> list[tuple[str, int, str]]:
    return [
        (state, claim, by.partition(" ")[0])
        for state, claim, by in truth.rows(
            "SELECT state, claim_epoch, claimed_by FROM work_item ORDER BY offered_at"
        )
    ]


def test_a_worker_does_it_and_the_owner_adopts_it(
    truth: Truth, start_worker: Callable[..., Worker], start_node: Callable[..., CounterNode]
) -> None:
    start_worker().wait_ready()
    wait_for(lambda: [one.kind for one in processes.running()] == ["worker"], "it is seen before it works")
    node = start_node("node-1")
    node.wait_accepted()
    node.ask("add", LANE, KEY, 1)
    wait_for(lambda: [state for state, _, _ in states(truth)] == ["adopted"], "the result is adopted")
    assert states(truth)[0][2] == "worker"
    assert truth.counter(KEY).version == 2
    [seen] = [one for one in processes.running() if one.kind == "worker"]
    assert (seen.version, seen.number) == (own_version(), 1)


def _publish(script: str, *items: str) -> None:
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings", "MUSTER_TEST": "1"}
    subprocess.run([sys.executable, "-c", script, *items], cwd=ROOT, env=environment, check=True, timeout=60)


def test_what_nobody_did_for_a_day_does_not_pile_up(redis_server: Redis) -> None:
    """A worker that comes back would look at each of a day's before it does anything new."""
    _publish(PUBLISH_EACH, "one", "two", "three", "four", "five")
    with redis.Redis.from_url(redis_server.url) as link:
        left = [json.loads(text)["headers"]["argsrepr"] for text in link.lrange("muster", 0, -1)]
    assert left == ["('five',)", "('four',)", "('three',)"]


def test_a_worker_whose_clock_is_ahead_of_the_nodes_works(
    truth: Truth, fresh_database: str, start_worker: Callable[..., Worker]
) -> None:
    start_worker().wait_ready()
    link = PostgresLink(open_connection(fresh_database, "muster-test"))
    item = link.transaction(lambda connection: work.offer(connection, "nobody's", KEY, None, {}, LANE))
    link.close()
    _publish(PUBLISH_AN_HOUR_BEHIND, item)
    wait_for(lambda: states(truth) == [("done", 1, "worker")], "it is done, though it was asked an hour ago")


def test_a_worker_stopped_in_the_middle_loses_its_claim(
    truth: Truth, start_worker: Callable[..., Worker], start_node: Callable[..., CounterNode]
) -> None:
    worker = start_worker("work.computed=stop")
    worker.wait_ready()
    node = start_node("node-1")
    node.wait_accepted()
    node.ask("add", LANE, KEY, 1)
    child = wait_for(worker.stopped_child, "the worker stands in the middle of its work")
    wait_for(lambda: states(truth) == [("due", 1, "worker")], "its claim is taken back")
    node.wait("spare")

    start_worker().wait_ready()
    wait_for(lambda: [state for state, _, _ in states(truth)] == ["adopted"], "another one does it")
    claims = states(truth)[0][1]
    assert claims >= 2
    child.send_signal(signal.SIGCONT)
    wait_for(lambda: child.status() != psutil.STATUS_STOPPED, "the first one wakes")
    node.ask("add", LANE, "orders", 1)
    node.wait("said", "orders")
    assert states(truth)[0][:2] == ("adopted", claims)
    assert truth.counter(KEY).version == 2


def test_a_worker_says_what_redis_refuses_it_and_goes_on_when_it_does_not(
    redis_server: Redis, start_worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    with redis.Redis.from_url(redis_server.url) as link:
        link.execute_command("ACL", "SETUSER", "workers", "on", ">secret", "~*", "&*", "+@all", "-brpop")
        monkeypatch.setenv("REDIS_URL", f"redis://workers:secret@127.0.0.1:{redis_server.port}/0")
        worker = start_worker()
        refusal = b"Redis refuses what a worker needs"
        wait_for(lambda: refusal in worker.log.read_bytes(), "it says that it is refused")
        assert b"'brpop' command" in worker.log.read_bytes()
        assert worker.process.poll() is None
        link.execute_command("ACL", "SETUSER", "workers", "+brpop")
        wait_for(lambda: any("b" in one["flags"] for one in link.client_list()), "it waits for work")


def test_a_worker_goes_on_when_redis_was_restarted_and_when_it_forgot_everything(
    truth: Truth,
    redis_server: Redis,
    start_worker: Callable[..., Worker],
    start_node: Callable[..., CounterNode],
) -> None:
    worker = start_worker()
    worker.wait_ready()
    node = start_node("node-1")
    node.wait_accepted()

    def is_done(number: int) -> None:
        node.ask("add", LANE, f"{KEY}-{number}", 1)
        wait_for(
            lambda: [state for state, _, _ in states(truth)] == ["adopted"] * number, "its work is adopted"
        )

    is_done(1)
    redis_server.stop()
    redis_server.start()
    is_done(2)
    with redis.Redis.from_url(redis_server.url) as link:
        link.flushall()
        is_done(3)
        # As in a failover: whoever waits is sent away, and writes are refused.
        lost = worker.connections_lost()
        link.replicaof("127.0.0.1", "1")
        wait_for(
            lambda: worker.process.poll() is not None or worker.connections_lost() > lost,
            "the worker is sent away",
        )
        assert worker.process.poll() is None
        link.replicaof("NO", "ONE")
        is_done(4)
    assert {by for _, _, by in states(truth)} == {"worker"} and worker.process.poll() is None


def a_message_with(**headers: object) -> str:
    """A message of the right form for the right task, but for these headers."""
    there = {"task": "runtime.perform_work", "id": "a", "lang": "py", **headers}
    properties = {"delivery_tag": "a", "delivery_info": {"exchange": "", "routing_key": "muster"}}
    form = {"content-type": "application/json", "content-encoding": "utf-8"}
    return json.dumps({"body": "[[], {}, {}]", "headers": there, "properties": properties, **form})


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param("no message", id="words"),
        pytest.param("{}", id="empty"),
        pytest.param("[1]", id="a list"),
        pytest.param("[" * 100_000, id="deeper than Python reads"),
        pytest.param(a_message_with(timelimit=5), id="a limit that is no pair"),
        pytest.param(a_message_with(id=["a"]), id="an id that is none"),
    ],
)
def test_a_worker_goes_on_where_the_queue_held_what_is_no_message(
    entry: str,
    truth: Truth,
    redis_server: Redis,
    start_worker: Callable[..., Worker],
    start_node: Callable[..., CounterNode],
) -> None:
    worker = start_worker()
    worker.wait_ready()
    with redis.Redis.from_url(redis_server.url) as link:
        link.lpush("muster", entry)
    wait_for(
        lambda: worker.process.poll() is not None or worker.connections_lost() > 0, "the worker has read it"
    )
    assert worker.process.poll() is None and b"what is no message" in worker.log.read_bytes()
    node = start_node("node-1")
    node.wait_accepted()
    node.ask("add", LANE, KEY, 1)
    wait_for(lambda: [state for state, _, _ in states(truth)] == ["adopted"], "its work is adopted")
    assert states(truth)[0][2] == "worker"


def test_a_stopped_redis_delays_nobody_and_the_spare_process_is_asked(
    truth: Truth, redis_server: Redis, start_node: Callable[..., CounterNode]
) -> None:
    node = start_node("node-1")
    node.wait_accepted()
    redis_server.pause()
    try:
        for number in range(30):
            node.ask("add", LANE, f"{KEY}-{number}", 1)
        node.ask("add", LANE, "orders", 1)
        node.wait("said", "orders")
        wait_for(lambda: len(set(node.facts("spare"))) == 30, "the spare process is asked for each")
        assert node.facts("frozen") == []
        assert truth.rows("SELECT DISTINCT epoch FROM lease") == [(1,)]
    finally:
        redis_server.resume()


def test_a_worker_that_runs_goes_on_where_a_newer_schema_comes(
    truth: Truth,
    fresh_database: str,
    start_worker: Callable[..., Worker],
    start_node: Callable[..., CounterNode],
) -> None:
    start_worker().wait_ready()
    with psycopg.connect(fresh_database) as connection:
        connection.execute("ALTER TABLE work_item ADD of_later text NOT NULL DEFAULT ''")
        connection.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('runtime', '9999_of_later', now())"
        )
    node = start_node("node-1")
    node.wait_accepted()
    node.ask("add", LANE, KEY, 1)
    wait_for(lambda: [state for state, _, _ in states(truth)] == ["adopted"], "the result is adopted")
    assert states(truth)[0][2] == "worker"
