"""This room is the job that counts departures and delay per route and hour: read, transform, write."""

import argparse
import os
import sys
from pathlib import Path

import psycopg

from pipeline.schemas import ROUTE_HOUR_TABLE
from pipeline.session import FAILURES, NotInstalled, open_session, reason_of
from pipeline.sinks import jdbc_options, replace_table
from pipeline.sources import client_properties, read_topic
from pipeline.transforms import flights


def run(bootstrap: str, topic: str, database_url: str, properties: str = "") -> None:
    """Read `topic` whole, replace the table `pipeline_route_hour`; `properties` say who reads, and how."""
    spark = open_session("departures by route and hour")
    try:
        client = client_properties(spark, properties)
        table = flights.by_route_and_hour(flights.decode(read_topic(spark, bootstrap, topic, client)))
        replace_table(table, database_url, ROUTE_HOUR_TABLE)
    finally:
        spark.stop()


def _text_of(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def main() -> None:
    """Read the command line; the database's address is DATABASE_URL, as `ps` shows arguments to everybody."""
    parser = argparse.ArgumentParser(
        description="Departures and delay per route and hour, from a topic to PostgreSQL."
    )
    parser.add_argument("--bootstrap", required=True, help="brokers, HOST:PORT,HOST:PORT")
    parser.add_argument("--topic", default="flights")
    parser.add_argument(
        "--command-config",
        type=_text_of,
        metavar="FILE",
        help="properties of Kafka's client, as its own tools take them: security.protocol, sasl.jaas.config",
    )
    parser.add_argument("--trace", action="store_true", help="tell a failure with all of Java's lines")
    arguments = parser.parse_args()
    database_url = os.environ.get("DATABASE_URL", "")
    try:
        # Before seconds are spent on a topic whose counts could be written nowhere.
        jdbc_options(database_url)
    except ValueError as problem:
        parser.error(f"DATABASE_URL: {problem}")
    try:
        run(arguments.bootstrap, arguments.topic, database_url, arguments.command_config or "")
    except NotInstalled as problem:
        parser.error(str(problem))
    except (*FAILURES, psycopg.Error) as problem:
        if arguments.trace:
            raise
        sys.exit(f"the job failed, and the table is as it was: {reason_of(problem)} (--trace tells more)")


if __name__ == "__main__":
    main()
