"""This room opens the Spark session that every job runs in."""

import os
import shutil
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

JARS = Path(__file__).parent / "jars"
# A job lives for seconds on few cores: it never earns back what the second compiler and parallel
# collectors cost.
SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


FAILURES: Final = (PySparkException, Py4JJavaError)
"""How a job fails in Spark."""


class NotInstalled(RuntimeError):
    """Something that Spark needs is not there; the text says how to get it."""


def open_session(name: str, *, cores: int = 2, memory: str = "640m") -> SparkSession:
    """A local session in UTC with Spark's Kafka source and the PostgreSQL driver on its class path.

    Raises NotInstalled if `pipeline/jars` is empty, or there is no Java.
    """
    _require_java()
    jars = sorted(JARS.glob("*.jar"))
    if not jars:
        raise NotInstalled("no jars in pipeline/jars: run `make jars` (needs Java 17 and Maven)")
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


def _require_java() -> None:
    """Spark itself says no more than that its gateway ended."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else "java"
    if shutil.which(java) is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no command `java` is on the PATH"
        raise NotInstalled(f"{where}: install Java 17")


def reason_of(failure: Exception) -> str:
    """What it all began with, in a line: Spark tells it below hundreds of Java's."""
    cause: Any = getattr(failure, "java_exception", None) or getattr(failure, "_origin", None)
    if cause is None:
        return " ".join(str(failure).split())
    while (deeper := cause.getCause()) is not None:
        cause = deeper
    return " ".join(f"{cause.getClass().getSimpleName()}: {cause.getMessage()}".split())
