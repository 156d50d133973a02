"""This room turns records of `flights` into what a person asks of them; pure, DataFrame to DataFrame."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.schemas import FLIGHT


def decode(records: DataFrame) -> DataFrame:
    """The flights in the values of Kafka records; a value that is not a flight fails the job."""
    value = F.from_json(F.col("value").cast("string"), FLIGHT, {"mode": "FAILFAST"})
    return records.select(value.alias("flight")).select("flight.*")


def by_route_and_hour(flights: DataFrame) -> DataFrame:
    """Departures and their mean delay for each route and planned hour of the day, in UTC."""
    left = F.col("dep_time").isNotNull()
    return (
        flights.groupBy("origin", "dest", F.hour("time_hour").alias("hour"))
        .agg(
            F.count(F.lit(1)).alias("scheduled"),
            F.count(F.when(left, 1)).alias("departures"),
            F.avg(F.when(left, F.col("dep_delay"))).alias("departure_delay_minutes"),
        )
        .select("origin", "dest", "hour", "scheduled", "departures", "departure_delay_minutes")
    )
