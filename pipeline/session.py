"""This room opens the Spark session that every job runs in."""

from pathlib import Path

from pyspark.sql import SparkSession

JARS = Path(__file__).parent / "jars"
# A job lives for seconds on few cores: it never earns back what the second compiler and parallel
# collectors cost.
SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class JarsMissing(RuntimeError):
    """The connector's jars are not there; the text says how to get them."""


def open_session(name: str, *, cores: int = 2, memory: str = "640m") -> SparkSession:
    """A local session in UTC with Spark's Kafka source and the PostgreSQL driver on its class path.

    Raises JarsMissing if `pipeline/jars` is empty.
    """
    jars = sorted(JARS.glob("*.jar"))
    if not jars:
        raise JarsMissing("no jars in pipeline/jars: run `make jars` (needs Java 17 and Maven)")
    return (
        SparkSession.builder.appName(name)
        .master(f"local[{cores}]")
        .config("spark.jars", ",".join(str(jar) for jar in jars))
        .config("spark.driver.memory", memory)
        .config("spark.driver.extraJavaOptions", SHORT_LIFE)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
