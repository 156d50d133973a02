"""A job reads with the properties that Kafka's own tools take, and says in a line why it could not."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

FILE = """
# Who reads.
security.protocol = SASL_SSL
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="ann" password="a=b";
"""


def test_a_file_is_read_as_java_reads_it(spark: "SparkSession") -> None:
    from pipeline.sources import client_properties

    assert client_properties(spark, FILE) == {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="ann" password="a=b";',
    }
    assert client_properties(spark, "") == {}


def test_kafkas_client_gets_them_and_a_failure_is_one_line(spark: "SparkSession") -> None:
    from pipeline.session import FAILURES, reason_of
    from pipeline.sources import read_topic

    odd = {"security.protocol": "BY_SHOUTING", "bootstrap.servers": "nowhere"}
    with pytest.raises(FAILURES) as failed:
        read_topic(spark, "127.0.0.1:1", "flights", odd).collect()
    reason = reason_of(failed.value)
    assert "BY_SHOUTING" in reason and "\n" not in reason
    assert len(str(failed.value).splitlines()) > 1, "Spark tells it below lines of Java's"
