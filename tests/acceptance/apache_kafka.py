"""This room runs one broker of Apache Kafka itself, as a cluster that Muster is moved to from, and back."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from standalone.children import free_ports
from tests.acceptance.members import java, until


@contextmanager
def apache_kafka(folder: Path, brokers: int = 1) -> Iterator[str]:
    """Where its clients begin; the first broker is the controller, too, and all are killed at the end."""
    folder.mkdir()
    ports, controller = free_ports(brokers), free_ports(1)[0]
    bootstrap = f"127.0.0.1:{ports[0]}"
    running: list[tuple[subprocess.Popen[bytes], Path]] = []

    def answers() -> bool:
        for process, log in running:
            assert process.poll() is None, log.read_text("utf-8")[-4000:]
        try:
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            return len(admin.list_topics(timeout=2).brokers) == brokers
        except KafkaException:
            return False

    try:
        for number, port in enumerate(ports, start=1):
            running.append(_started(folder, number, port, controller))
        until(answers, "Apache Kafka answers")
        yield bootstrap
    finally:
        for process, _ in running:
            process.kill()
            process.wait()


def _started(folder: Path, number: int, port: int, controller: int) -> tuple[subprocess.Popen[bytes], Path]:
    """One broker, and where it logs."""
    listener, rules = f"PLAINTEXT://127.0.0.1:{port}", f"CONTROLLER://127.0.0.1:{controller}"
    stated = {
        "process.roles": "broker,controller" if number == 1 else "broker",
        "node.id": str(number),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{listener},{rules}" if number == 1 else listener,
        "advertised.listeners": listener,
        "log.dirs": str(folder / f"logs-{number}"),
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "100",
    }
    properties = folder / f"server-{number}.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in stated.items()), "utf-8")
    command = [word.replace("-Xmx128m", "-Xmx384m") for word in java()]
    log = folder / f"kafka-{number}.out"
    with log.open("wb") as out:
        formatted = [*command, "kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw"]
        subprocess.run([*formatted, "-c", str(properties)], check=True, stdout=out, stderr=out)
        return subprocess.Popen([*command, "kafka.Kafka", str(properties)], stdout=out, stderr=out), log
