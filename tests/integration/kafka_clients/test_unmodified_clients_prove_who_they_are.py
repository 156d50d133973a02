"""librdkafka, kafka-python and aiokafka come in with a token by SCRAM and PLAIN, behind TLS or not."""

import base64
import hashlib
import os
import signal
import ssl
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from muster.kernel.scram import HASHES, verifier_of
from muster.messages.link.callers import CallerRow, ScramRow

with warnings.catch_warnings():
    # kafka-python reads its schemas by an old way of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

ROOT = Path(__file__).parents[3]
CERTIFICATES = ROOT / "tests" / "unit" / "kafkaserver" / "certificates"
SECRET = bytes(range(32))
TOKEN = f"mst_0a0b0c0d_{base64.urlsafe_b64encode(SECRET).rstrip(b'=').decode()}"
PATIENCE_S = 60.0


def _row() -> CallerRow:
    scram = []
    for mechanism in HASHES:
        one = verifier_of(mechanism, TOKEN, b"salt")
        scram.append(
            ScramRow(
                mechanism=mechanism,
                salt=one.salt,
                iterations=one.iterations,
                stored_key=one.stored_key,
                server_key=one.server_key,
            )
        )
    return CallerRow(
        name="ann",
        principal="ann",
        operations=("consume", "produce"),
        prefix="0a0b0c0d",
        digest=hashlib.sha256(SECRET).digest(),
        topics=("orders*",),
        scram=tuple(scram),
    )


@pytest.fixture(scope="module", params=["SASL_PLAINTEXT", "SASL_SSL"])
def door(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """(protocol, address) of a broker that asks who comes."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "callers").write_bytes(msgspec.json.encode((_row(),)))
    environment = {
        **os.environ,
        "MUSTER_KAFKA_SASL": "1",
        "MUSTER_LONE_BROKER_CALLERS": str(folder / "callers"),
    }
    if request.param == "SASL_SSL":
        environment["MUSTER_KAFKA_TLS_CERTIFICATE"] = str(CERTIFICATES / "first.crt")
        environment["MUSTER_KAFKA_TLS_KEY"] = str(CERTIFICATES / "first.key")
    command = [sys.executable, "-m", "tests.benchmarks.produce_consume_broker", str(folder / "logs")]
    command += ["orders:1", "orders-rdkafka:1", "payments:1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    assert process.stdout is not None
    port = process.stdout.readline().split()[1]
    yield request.param, f"127.0.0.1:{port}"
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_S)
    process.stdout.close()


def _librdkafka(door: tuple[str, str], mechanism: str, password: str = TOKEN) -> dict[str, Any]:
    protocol, address = door
    return {
        "bootstrap.servers": address,
        "security.protocol": protocol,
        "ssl.ca.location": str(CERTIFICATES / "first.crt"),
        "sasl.mechanism": mechanism,
        "sasl.username": "ann",
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_librdkafka_produces_and_reads_back(door: tuple[str, str], mechanism: str) -> None:
    failures: list[Any] = []
    producer = Producer(_librdkafka(door, mechanism))
    for number in range(100):
        producer.produce(
            "orders-rdkafka",
            b"%d" % number,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []
    consumer = Consumer({**_librdkafka(door, mechanism), "group.id": "ann", "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders-rdkafka", 0, 0)])
    read = consumer.consume(100, PATIENCE_S)
    consumer.close()
    assert [message.value() for message in read] == [b"%d" % number for number in range(100)]


def test_a_wrong_token_is_refused(door: tuple[str, str]) -> None:
    errors: list[KafkaError] = []
    wrong = TOKEN[:-4] + "AAAA"
    producer = Producer({**_librdkafka(door, "SCRAM-SHA-256", wrong), "error_cb": errors.append})
    producer.produce("orders", b"x")
    producer.flush(3)
    assert KafkaError._AUTHENTICATION in {error.code() for error in errors}
    producer.purge()
    producer.flush(PATIENCE_S)


def test_a_topic_that_the_token_does_not_name_is_not_for_it(door: tuple[str, str]) -> None:
    consumer = Consumer({**_librdkafka(door, "PLAIN"), "group.id": "ann", "enable.auto.commit": False})
    listed = consumer.list_topics(timeout=PATIENCE_S).topics
    assert set(listed) == {"orders", "orders-rdkafka"}
    refused = consumer.list_topics("payments", timeout=PATIENCE_S).topics["payments"].error
    assert refused is not None and refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer.close()


def test_kafka_python_produces(door: tuple[str, str]) -> None:
    protocol, address = door
    producer = kafka.KafkaProducer(
        bootstrap_servers=address,
        security_protocol=protocol,
        ssl_cafile=str(CERTIFICATES / "first.crt"),
        ssl_check_hostname=False,
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username="ann",
        sasl_plain_password=TOKEN,
    )
    assert producer.send("orders", b"x").get(PATIENCE_S).offset >= 0
    producer.close()


async def test_aiokafka_produces(door: tuple[str, str]) -> None:
    protocol, address = door
    context = ssl.create_default_context(cafile=str(CERTIFICATES / "first.crt"))
    producer = AIOKafkaProducer(
        bootstrap_servers=address,
        security_protocol=protocol,
        ssl_context=context if protocol == "SASL_SSL" else None,
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="ann",
        sasl_plain_password=TOKEN,
    )
    await producer.start()
    assert (await producer.send_and_wait("orders", b"x")).offset >= 0
    await producer.stop()
