"""Programs of Kafka's clients go on by what their libraries call informational, or good to be tried again."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.acceptance.members import CLIENTS, PATIENCE_S, Member, Seat, missing, until
from tests.acceptance.story import SESSION_MS, Stack, create, process_of, running_stack, start_again

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
NODES: Final = ("node-1", "node-2")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two nodes and two brokers."""
    with running_stack(tmp_path_factory.mktemp("stack") / "home", brokers=2) as told:
        yield told


@contextmanager
def member(client: str, stack: Stack, topic: str, folder: Path, *settings: str) -> Iterator[Member]:
    """One program by this client, alone in its group, which leaves in good order."""
    if reason := missing(client):
        pytest.skip(reason)
    seat = Seat(stack, f"readers-of-{topic}", topic, "ben", SESSION_MS)
    one = Member([*CLIENTS[client](seat), *settings], folder, seat)
    try:
        yield one
        one.ask_to_leave()
        one.wait_gone()
    finally:
        one.kill()


def write(stack: Stack, topic: str, *values: int) -> None:
    producer = Producer({"bootstrap.servers": stack["bootstrap"], "log_level": 0})
    for value in values:
        producer.produce(topic, partition=0, key=b"ann", value=b"%d" % value)
    assert producer.flush(PATIENCE_S) == 0


def until_read(one: Member, *values: int) -> None:
    until(lambda: {read.value for read in one.read} >= set(values), f"{values} are read", [one])


def test_librdkafkas_member_waits_for_a_topic_that_is_not_there(stack: Stack, tmp_path: Path) -> None:
    with member("librdkafka-range", stack, "later", tmp_path) as one:
        until(lambda: "Subscribed topic not available" in one.grumble(), "it is told so", [one])
        create(stack["bootstrap"], "later", 1)
        write(stack, "later", 1)
        until_read(one, 1)


def test_javas_member_goes_on_where_its_commit_was_not_answered(stack: Stack, tmp_path: Path) -> None:
    create(stack["bootstrap"], "orders", 1)
    with member("java", stack, "orders", tmp_path, "default.api.timeout.ms=1000") as one:
        write(stack, "orders", 1)
        until_read(one, 1)
        nodes = [process_of(stack, name) for name in NODES]
        for node in nodes:
            os.kill(node, signal.SIGSTOP)
        try:
            write(stack, "orders", 2)
            until(lambda: "TimeoutException" in one.grumble(), "its commit takes too long", [one])
        finally:
            for node in nodes:
                os.kill(node, signal.SIGCONT)
        write(stack, "orders", 3)
        until_read(one, 1, 2, 3)


def test_kafkajs_begins_where_the_log_does_when_its_offset_is_gone(stack: Stack, tmp_path: Path) -> None:
    """It commits −2 then, and asks what is committed."""
    create(stack["bootstrap"], "ageing", 1)
    write(stack, "ageing", 1, 2, 3)
    place = TopicPartition("ageing", 0, 1)
    consumer = Consumer({"bootstrap.servers": stack["bootstrap"], "group.id": "readers-of-ageing"})
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()
    admin = AdminClient({"bootstrap.servers": stack["bootstrap"]})
    [deleted] = admin.delete_records([TopicPartition("ageing", 0, 2)]).values()
    assert deleted.result().low_watermark == 2
    with member("kafkajs", stack, "ageing", tmp_path) as one:
        until_read(one, 3)


def test_franz_goes_on_behind_what_an_unclean_election_lost(stack: Stack, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": stack["bootstrap"]})
    configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    topic = NewTopic("losing", 1, replica_assignment=[[1, 2]], config=configs)
    admin.create_topics([topic])["losing"].result()
    with member("franz", stack, "losing", tmp_path) as one:
        write(stack, "losing", 1)
        until_read(one, 1)
        os.kill(process_of(stack, "broker-2"), signal.SIGKILL)
        write(stack, "losing", 2, 3)
        until_read(one, 1, 2, 3)
        os.kill(process_of(stack, "broker-1"), signal.SIGKILL)
        start_again(stack, "broker-2")
        until(lambda: "lost records" in one.grumble(), "it is told of the loss", [one])
        write(stack, "losing", 4)

        def goes_on() -> bool:
            one.hear()
            # The new log begins at a lower offset than was read of the old one.
            one.disorder.clear()
            return one.newest == 4

        until(goes_on, "what is there now is read")
        start_again(stack, "broker-1")
