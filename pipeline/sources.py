"""This room reads: topics through Spark's own Kafka source."""

from pyspark.sql import DataFrame, SparkSession


def read_topic(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Every record of `topic` from its earliest to its latest offset, as Spark's Kafka source gives it.

    Columns `key` and `value` are bytes. The job fails, rather than going on without them, when
    records vanish while it reads.
    """
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("failOnDataLoss", "true")
        .load()
    )
