"""Fixtures of the pipeline's tests: a real Spark."""

import contextlib
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ENDS_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A session that runs; the test is skipped where Spark has not what it needs."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17")
    from pipeline.session import JARS, open_session

    if not any(JARS.glob("*.jar")):
        pytest.skip("no jars in pipeline/jars: `make jars` needs Maven")
    # Spark leaves an empty folder where it is started, and starts whatever `python3` is for Python of ours.
    with contextlib.chdir(tmp_path_factory.mktemp("spark")), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = open_session("tests", cores=1)
    yield session
    gateway = session.sparkContext._gateway
    try:
        session.stop()
    finally:
        _end_java(gateway)


def _end_java(gateway: Any) -> None:
    """Spark keeps its Java for the next session of its process: hundreds of megabytes that never rest."""
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(ENDS_WITHIN_S)
    finally:
        gateway.proc.kill()
