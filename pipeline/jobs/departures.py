"""This room is the job that counts departures and delay per route and hour: read, transform, write."""

import argparse
import os

from pipeline.schemas import ROUTE_HOUR_TABLE
from pipeline.session import NotInstalled, open_session
from pipeline.sinks import jdbc_options, replace_table
from pipeline.sources import read_topic
from pipeline.transforms import flights


def run(bootstrap: str, topic: str, database_url: str) -> None:
    """Read `topic` whole, replace the table `pipeline_route_hour`."""
    spark = open_session("departures by route and hour")
    try:
        table = flights.by_route_and_hour(flights.decode(read_topic(spark, bootstrap, topic)))
        replace_table(table, database_url, ROUTE_HOUR_TABLE)
    finally:
        spark.stop()


def main() -> None:
    """Read the command line; the database's address is DATABASE_URL, as `ps` shows arguments to everybody."""
    parser = argparse.ArgumentParser(
        description="Departures and delay per route and hour, from a topic to PostgreSQL."
    )
    parser.add_argument("--bootstrap", required=True, help="brokers, HOST:PORT,HOST:PORT")
    parser.add_argument("--topic", default="flights")
    arguments = parser.parse_args()
    database_url = os.environ.get("DATABASE_URL", "")
    try:
        # Before seconds are spent on a topic whose counts could be written nowhere.
        jdbc_options(database_url)
    except ValueError as problem:
        parser.error(f"DATABASE_URL: {problem}")
    try:
        run(arguments.bootstrap, arguments.topic, database_url)
    except NotInstalled as problem:
        parser.error(str(problem))


if __name__ == "__main__":
    main()
