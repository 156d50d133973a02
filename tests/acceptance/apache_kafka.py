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
def apache_kafka(folder: Path) -> Iterator[str]:
    """Where its clients begin; it is its own controller, and is killed at the end."""
    folder.mkdir()
    port, controller = free_ports(2)
    stated = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(folder / "logs"),
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "100",
    }
    properties = folder / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in stated.items()), "utf-8")
    command = [word.replace("-Xmx128m", "-Xmx384m") for word in java()]
    log = folder / "kafka.out"
    with log.open("wb") as out:
        formatted = [*command, "kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw"]
        subprocess.run([*formatted, "-c", str(properties)], check=True, stdout=out, stderr=out)
        process = subprocess.Popen([*command, "kafka.Kafka", str(properties)], stdout=out, stderr=out)
    bootstrap = f"127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, log.read_text("utf-8")[-4000:]
        try:
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            return bool(admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    try:
        until(answers, "Apache Kafka answers")
        yield bootstrap
    finally:
        process.kill()
        process.wait()
