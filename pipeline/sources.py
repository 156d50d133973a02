"""This room reads: topics through Spark's own Kafka source."""

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

PATIENCE: Final = {"default.api.timeout.ms": "20000", "request.timeout.ms": "10000"}
"""Spark asks four times before it gives up: at Kafka's minute each nobody learns what is wrong."""


def client_properties(spark: SparkSession, text: str) -> dict[str, str]:
    """What a file of properties says, as Kafka's own tools take them; Java reads it, which made the rules."""
    java: Any = spark.sparkContext._jvm
    properties = java.java.util.Properties()
    properties.load(java.java.io.StringReader(text))
    return {str(name): str(properties.getProperty(name)) for name in properties.stringPropertyNames()}


def read_topic(
    spark: SparkSession, bootstrap: str, topic: str, client: Mapping[str, str] | None = None
) -> DataFrame:
    """Every record of `topic` from its earliest to its latest offset, as Spark's Kafka source gives it.

    Columns `key` and `value` are bytes. `client` holds properties of Kafka's consumer, such as who it is. The
    job fails, rather than going on without them, when records vanish while it reads.
    """
    properties = {**PATIENCE, **(client or {}), "bootstrap.servers": bootstrap}
    return (
        spark.read.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in properties.items()})
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("failOnDataLoss", "true")
        .load()
    )
