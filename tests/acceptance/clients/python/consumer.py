"""This room is a Kafka consumer in Python: `consumer.py BOOTSTRAP GROUP TOPIC [SETTING=VALUE ...]`."""

import signal
import sys
import threading

from confluent_kafka import Consumer, KafkaException, TopicPartition

bootstrap, group, topic, *more = sys.argv[1:]
settings = {
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    **dict(word.split("=", 1) for word in more),
}
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
consumer = Consumer(settings)
mine: set[int] = set()


def assigned(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
    mine.update(one.partition for one in partitions)
    print("assigned", *sorted(mine))


def revoked(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
    mine.difference_update(one.partition for one in partitions)
    print("assigned", *sorted(mine))


consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked)
while not stopping.is_set():
    records = consumer.consume(500, timeout=0.2)
    for record in records:
        if problem := record.error():
            # All others are informational: librdkafka goes on by itself, as when the topic is not there yet.
            if problem.fatal():
                raise SystemExit(str(problem))
            print(problem, file=sys.stderr)
            continue
        key, value = record.key() or b"", record.value() or b""
        print(record.partition(), record.offset(), key.decode(), value.decode())
    if records:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as problem:
            # The coordinator moves, or a rebalance has begun: the next commit includes what this one did not.
            print(problem, file=sys.stderr)
consumer.close()
