"""This room is a structured stream by Spark: `by_spark.py BOOTSTRAP GROUP TOPIC CHECKPOINTS`."""

import signal
import sys
import threading
import time

from pyspark.sql import DataFrame

from pipeline.session import open_session

bootstrap, group, topic, checkpoints = sys.argv[1:]
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
spark = open_session("acceptance", cores=1)


def show(batch: DataFrame, _number: int) -> None:
    """Print each record of a micro-batch."""
    rows = batch.selectExpr("partition", "offset", "string(key) AS key", "string(value) AS value").collect()
    for row in rows:
        print(row["partition"], row["offset"], row["key"], row["value"])


query = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("kafka.group.id", group)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("failOnDataLoss", "true")
    .load()
    .writeStream.foreachBatch(show)
    .option("checkpointLocation", checkpoints)
    .start()
)
# Nobody waits for the event: a handler that came just then, in the same thread, could not set it.
while not stopping.is_set():
    time.sleep(0.2)
    if not query.isActive:
        raise SystemExit(str(query.exception()))
query.stop()
spark.stop()
