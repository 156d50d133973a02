"""This room turns records of `flights` into what a person asks of them; pure, DataFrame to DataFrame."""

from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, StructField, StructType

from pipeline.schemas import FLIGHT

_VALUE = StructType([StructField("flight", FLIGHT), StructField("whole", BooleanType())])
"""Spark reads one document and leaves what follows it unread, be it another flight: so it reads more."""

_STRICT = {"mode": "FAILFAST", "allowNonNumericNumbers": "false"}
"""With one NaN among them the mean of a thousand delays is none."""


def decode(records: DataFrame) -> DataFrame:
    """The flights in the values of Kafka records; a value that is not a flight, or none, fails the job."""
    text = F.concat(F.lit('{"flight":'), F.col("value").cast("string"), F.lit(',"whole":true}'))
    read = records.select(F.from_json(text, _VALUE, _STRICT).alias("value"))
    flights = read.select("value.flight.*", "value.whole")
    # Spark reads JSON that lacks a field as a row with a null, whatever the schema says.
    required = [F.col(field.name).isNotNull() for field in FLIGHT if not field.nullable]
    # What is too large for a double, such as 1e999, it reads as without end.
    doubles = [F.col(field.name) for field in FLIGHT if isinstance(field.dataType, DoubleType)]
    finite = [one.isNull() | (F.abs(one) < float("inf")) for one in doubles]
    is_whole = reduce(and_, required + finite) & F.col("whole").isNotNull()
    checked = flights.where(F.assert_true(is_whole, "MALFORMED_RECORD: a value is no flight").isNull())
    return checked.drop("whole")


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
