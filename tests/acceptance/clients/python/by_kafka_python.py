"""This room is a consumer by kafka-python: `by_kafka_python.py BOOTSTRAP GROUP TOPIC SESSION_MS`."""

import signal
import sys
import threading
import warnings

with warnings.catch_warnings():
    # kafka-python reads its schemas by an old way of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

bootstrap, group, topic, session = sys.argv[1:]
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
consumer = kafka.KafkaConsumer(
    topic,
    bootstrap_servers=bootstrap,
    group_id=group,
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    session_timeout_ms=int(session),
    heartbeat_interval_ms=500,
)
mine: list[int] = []
while not stopping.is_set():
    batch = consumer.poll(timeout_ms=200, max_records=500)
    if mine != (mine := sorted(one.partition for one in consumer.assignment())):
        print("assigned", *mine)
    for records in batch.values():
        for one in records:
            print(one.partition, one.offset, one.key.decode(), one.value.decode())
    if batch:
        try:
            consumer.commit()
        except kafka.errors.KafkaError as problem:
            print(problem, file=sys.stderr)
consumer.close()
