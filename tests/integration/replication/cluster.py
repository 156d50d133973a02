"""This room starts a small cluster for tests: nodes, three brokers, real PostgreSQL, Kafka's own client."""

import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from standalone.children import free_ports
from standalone.redis import Redis
from tests.integration.coordinator.control_plane import ControlPlane, Process, eventually

BROKERS = (1, 2, 3)
PATIENCE_S = 120.0
"""Costs nothing where things go well: a machine may be slow, but not for so long."""

ASK_AGAIN = ("NOT_CONTROLLER", "REQUEST_TIMED_OUT", "_TIMED_OUT", "_TRANSPORT", "_DESTROY_BROKER")

QUICK = {
    # Whoever only stands in the queue for a processor is not missed, and does not lag: tests that want
    # somebody to be missed kill him, which is noticed at once, or wait for this long.
    "MUSTER_BROKER_SESSION_TIMEOUT_MS": "6000",
    "MUSTER_BROKER_HEARTBEAT_INTERVAL_MS": "200",
    "MUSTER_REPLICA_LAG_TIME_MAX_MS": "10000",
    "MUSTER_REPLICA_FETCH_WAIT_MAX_MS": "200",
    "MUSTER_LOG_SEGMENT_BYTES": "1048576",
}


class Cluster(ControlPlane):
    """A control plane with brokers; their data outlives their processes, as it does for people."""

    def __init__(self, home: Path, database_url: str, redis: Redis, **settings: str) -> None:
        super().__init__(home, database_url, redis, **{**QUICK, **settings})
        self.brokers: dict[int, Process] = {}
        self.ports: dict[int, tuple[int, int]] = {}
        self.secrets: dict[int, str] = {}

    def enroll(self, broker_id: int) -> str:
        self.secrets[broker_id] = self.manage("enroll_broker", str(broker_id)).split()[-1]
        return self.secrets[broker_id]

    def start_broker(self, broker_id: int, **settings: str) -> Process:
        """Start a broker, anew or again, on its ports and its data; does not wait."""
        if broker_id not in self.ports:
            client, probe = free_ports(2)
            self.ports[broker_id] = (client, probe)
        client, probe = self.ports[broker_id]
        if broker_id not in self.secrets:
            self.enroll(broker_id)
        environment = {
            "MUSTER_BROKER_ID": str(broker_id),
            "MUSTER_BROKER_LISTEN": f"127.0.0.1:{client}",
            "MUSTER_BROKER_REPLICATION_LISTEN": "127.0.0.1:0",
            "MUSTER_BROKER_HTTP_LISTEN": f"127.0.0.1:{probe}",
            "MUSTER_BROKER_DATA": str(self.data(broker_id)),
            "MUSTER_BROKER_SECRET": self.secrets[broker_id],
            "MUSTER_NODES": ",".join(self.addresses.values()),
            **settings,
        }
        process = self._start(f"broker-{broker_id}", [sys.executable, "-m", "broker"], environment)
        self.brokers[broker_id] = process
        return process

    def start(self, brokers: Iterable[int] = BROKERS, nodes: int = 1) -> None:
        """Nodes, then brokers; returns when every broker is ready."""
        for number in range(1, nodes + 1):
            self.start_node(f"node-{number}")
        for broker_id in brokers:
            self.start_broker(broker_id)
        self.wait_until_ready(brokers)

    def wait_until_ready(self, brokers: Iterable[int] = BROKERS) -> None:
        for broker_id in brokers:
            self.await_true(partial(self.is_ready, broker_id), f"broker {broker_id} is ready")

    def is_ready(self, broker_id: int) -> bool:
        return self.probe(broker_id, "readyz")[0] == 200

    def probe(self, broker_id: int, path: str) -> tuple[int, str]:
        """Status and text of a broker's probe; status 0: nobody answers."""
        url = f"http://127.0.0.1:{self.ports[broker_id][1]}/{path}"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()
        except OSError:
            return 0, ""

    def await_true(self, condition: Callable[..., object], what: str, within_s: float = PATIENCE_S) -> object:
        """`eventually`, and the ends of all logs when it does not come true."""
        try:
            return eventually(condition, what, within_s)
        except AssertionError as problem:
            everybody = [*self.nodes.values(), *self.brokers.values()]
            tails = "\n".join(f"--- {process.name}\n{process.tail()}" for process in everybody)
            raise AssertionError(f"{problem}\n{tails}") from None

    def data(self, broker_id: int) -> Path:
        return self.home / f"data-{broker_id}"

    def stop(self) -> None:
        for process in self.brokers.values():
            if process.popen.poll() is None:
                process.resume()
                process.popen.terminate()
        for process in self.brokers.values():
            process.popen.wait(timeout=PATIENCE_S)
        super().stop()

    # ------------------------------------------------------------------------------ rows

    def partitions(self, topic: str) -> dict[int, dict[str, Any]]:
        """Rows of a topic's partitions, by number."""
        rows = self.query(
            "SELECT partition, assigned, leader, leader_epoch, isr, version FROM partition"
            " JOIN topic USING (topic_id) WHERE name = %s ORDER BY 1",
            topic,
        )
        names = ("partition", "assigned", "leader", "leader_epoch", "isr", "version")
        return {int(str(row[0])): dict(zip(names, row, strict=True)) for row in rows}

    def leaders(self, topic: str) -> dict[int, int]:
        return {number: row["leader"] for number, row in self.partitions(topic).items()}

    def leader_of(self, topic: str, number: int = 0) -> int:
        """Who leads the partition, once somebody does."""

        def found() -> int:
            return max(0, self.leaders(topic)[number])

        leader = self.await_true(found, f"{topic}-{number} is led")
        assert isinstance(leader, int)
        return leader

    def end(self, broker_id: int) -> None:
        """SIGTERM; returns when it has ended in order."""
        popen = self.brokers[broker_id].popen
        popen.terminate()
        assert popen.wait(timeout=PATIENCE_S) == 0, self.brokers[broker_id].tail()

    def everybody_in_sync(self, topic: str) -> bool:
        return all(set(row["isr"]) == set(row["assigned"]) for row in self.partitions(topic).values())

    def count(self, topic: str, condition: str) -> int:
        """How many partitions of a topic are as `condition` says, in SQL over their rows."""
        text = f"SELECT count(*) FROM partition JOIN topic USING (topic_id) WHERE name = %s AND ({condition})"
        return int(str(self.query(text, topic)[0][0]))

    def newest_version_is_applied(self, brokers: Iterable[int]) -> bool:
        """True if these brokers have obeyed whatever the controller decided."""
        version = self.query("SELECT metadata_version FROM cluster")[0][0]
        line = f"muster_broker_metadata_version {version}\n"
        return all(line in self.probe(broker_id, "metrics")[1] for broker_id in brokers)

    def await_missed(self, *gone: int) -> None:
        """Return when these are fenced, and whoever lives tells clients so.

        A client that was told of the dead by somebody who had not heard yet may ask them for minutes.
        """

        def missed() -> bool:
            living = self.live_brokers()
            return living.isdisjoint(gone) and self.newest_version_is_applied(living)

        self.await_true(missed, f"all others miss {gone}")

    def live_brokers(self) -> set[int]:
        return {int(str(row[0])) for row in self.query("SELECT broker_id FROM broker WHERE NOT fenced")}

    def controller(self) -> str:
        """The name of the node that holds the lease `controller`; "" if nobody does."""
        rows = self.query(
            "SELECT node FROM lease JOIN node_session USING (run) WHERE name = 'controller' AND NOT ended"
        )
        return str(rows[0][0]) if rows else ""

    # ------------------------------------------------------------------------------ Kafka's client

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{client}" for client, _ in self.ports.values())

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create_topic(
        self, name: str, partitions: int, replicas: int = 3, configs: dict[str, str] | None = None
    ) -> None:
        """Returns when the partitions lead. Raises KafkaException."""
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=configs or {})
        admin = self.admin()
        was_asked = False

        def created() -> bool:
            """Asked again where one controller is gone and the next is not there yet."""
            nonlocal was_asked
            futures = admin.create_topics([wanted], operation_timeout=20.0, request_timeout=30.0)
            try:
                futures[name].result(timeout=40)
            except KafkaException as refused:
                error = refused.args[0].name()
                # A broker that did not get a processor for a whole session is fenced, and comes back.
                is_for_now = error == "INVALID_REPLICATION_FACTOR" and replicas <= len(self.brokers)
                exists = was_asked and error == "TOPIC_ALREADY_EXISTS"
                if not (error in ASK_AGAIN or is_for_now or exists):
                    raise
                was_asked = True
                return error == "TOPIC_ALREADY_EXISTS" and -1 not in self.leaders(name).values()
            return True

        self.await_true(created, f"{name} is created")

    def refusal(self, name: str, partitions: int, replicas: int) -> str:
        """The name of the error with which a topic is refused."""
        try:
            self.create_topic(name, partitions, replicas)
        except KafkaException as refused:
            error: KafkaError = refused.args[0]
            return str(error.name())
        raise AssertionError(f"{name} was created")

    def read_everything(self, topic: str, partitions: int) -> dict[int, list[bytes]]:
        """The values of each partition up to the end offset that is told before, in order.

        Who has just begun to lead may serve less at first: what was told is waited for.
        """
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "readers",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        found: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
        try:
            ends = {number: self.told_end(consumer, topic, number) for number in found}
            consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
            open_partitions = {number for number, end in ends.items() if end}
            while open_partitions:
                message = consumer.poll(PATIENCE_S)
                assert message is not None, f"partitions {open_partitions} of {topic} have no end"
                number, offset, value = message.partition(), message.offset(), message.value()
                if message.error() is not None:
                    continue
                assert number is not None and offset is not None and value is not None
                found[number].append(value)
                if offset + 1 >= ends[number]:
                    open_partitions.discard(number)
        finally:
            consumer.close()
        return found

    def told_end(self, consumer: Consumer, topic: str, number: int) -> int:
        """The end offset of a partition, once its leader tells it."""

        def told() -> tuple[int, int] | None:
            try:
                return consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=5.0)
            except KafkaException:
                return None

        answer = self.await_true(told, f"the end of {topic}-{number} is told")
        assert isinstance(answer, tuple)
        return int(answer[1])

    def logs(self, topic: str, number: int) -> dict[int, bytes]:
        """The bytes of a partition's log on each broker that holds it."""
        found = {}
        for broker_id in self.ports:
            folder = self.data(broker_id) / "partitions" / f"{topic}-{number}"
            if folder.exists():
                found[broker_id] = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
        return found

    def logs_are_equal(self, topic: str) -> bool:
        for number, row in self.partitions(topic).items():
            logs = self.logs(topic, number)
            if set(logs) != set(row["assigned"]) or len(set(logs.values())) != 1:
                return False
        return True


class Producing:
    """Kafka's own client producing numbered values in a thread, and what was acknowledged of them."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, **configs: Any) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 20,
                "delivery.timeout.ms": 120_000,
                "log_level": 0,
                **configs,
            }
        )
        self._topic = topic
        self._partitions = partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producing")
        self.sent = 0
        self.acknowledged: dict[int, list[int]] = {number: [] for number in range(partitions)}
        self.refused: list[str] = []
        self._thread.start()

    @property
    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def _run(self) -> None:
        while not self._stop.wait(0.001):
            number = self.sent
            self._producer.produce(
                self._topic,
                value=str(number).encode(),
                partition=number % self._partitions,
                on_delivery=partial(self._delivered, number),
            )
            self.sent += 1
            self._producer.poll(0)

    def _delivered(self, number: int, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition()].append(number)
        else:
            self.refused.append(str(error))

    def finish(self) -> None:
        """Send nothing more and wait until everything sent is acknowledged or refused."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(PATIENCE_S)
        assert left == 0, f"{left} of {self.sent} records were neither acknowledged nor refused"


def nothing_lost_nothing_twice(producing: Producing, found: dict[int, list[bytes]]) -> None:
    """Every acknowledged value is there, in the order it was sent, and no value is there twice."""
    for number, values in found.items():
        there = [int(value) for value in values]
        assert len(set(there)) == len(there), f"partition {number} holds a value twice"
        assert there == sorted(there), f"partition {number} is out of order"
        missing = set(producing.acknowledged[number]) - set(there)
        assert not missing, (
            f"{len(missing)} acknowledged values of partition {number} are lost: {sorted(missing)[:5]}"
        )
