"""What is deleted while a job reads it fails the job: counts without it would look whole."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.sdk.brokers import LoneBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

RECORDS, SIZE_BYTES = 300, 100_000
"""Many times what Spark reads ahead of whoever takes it."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LoneBroker]:
    """A running broker with `flights`, of one partition."""
    lone = LoneBroker(tmp_path, flights=1)
    lone.start()
    lone.produce("flights", [b"%d" % number + bytes(SIZE_BYTES) for number in range(RECORDS)])
    yield lone
    lone.stop()


def test_records_that_vanish_while_a_job_reads_them_fail_it(
    spark: "SparkSession", broker: LoneBroker
) -> None:
    from pipeline.sources import read_topic

    address = broker.address

    def take(rows: Iterable[Any]) -> None:
        """In Spark's process: with the first record in hand all others are deleted."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        for number, _ in enumerate(rows):
            if not number:
                admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
                partition = TopicPartition("flights", 0, RECORDS)
                admin.delete_records([partition])[partition].result(30)

    with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS|failOnDataLoss"):
        read_topic(spark, address, "flights").rdd.foreachPartition(take)
