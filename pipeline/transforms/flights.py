"""This room turns records of `flights` into what a person asks of them; pure, DataFrame to DataFrame."""

import secrets
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DoubleType, StructField, StructType

from pipeline.schemas import FLIGHT

_STRICT = {"mode": "FAILFAST", "allowNonNumericNumbers": "false"}
"""With one NaN among them the mean of a thousand delays is none."""


def decode(records: DataFrame) -> DataFrame:
    """The flights in the values of Kafka records; a value that is not a flight, or none, fails the job."""
    # Spark reads one document and leaves what follows it unread, be it another flight: so the value is to be
    # the first of two in a list, before an end that nobody can write into it.
    end = f"end_{secrets.token_hex(16)}"
    flight_or_end = StructType([*FLIGHT.fields, StructField(end, BooleanType())])
    text = F.concat(F.lit("["), F.col("value").cast("string"), F.lit(f',{{"{end}":true}}]'))
    read = records.select(F.from_json(text, ArrayType(flight_or_end), _STRICT).alias("list"))
    is_alone = (F.size("list") == 2) & F.get("list", F.lit(1)).getField(end).isNotNull()
    first = F.get("list", F.lit(0))
    fields = [first.getField(one.name).alias(one.name) for one in FLIGHT]
    flights = read.select(*fields, is_alone.alias("whole"))
    # Spark reads JSON that lacks a field as a row with a null, whatever the schema says.
    required = [F.col(field.name).isNotNull() for field in FLIGHT if not field.nullable]
    # What is too large for a double, such as 1e999, it reads as without end.
    doubles = [F.col(field.name) for field in FLIGHT if isinstance(field.dataType, DoubleType)]
    finite = [one.isNull() | (F.abs(one) < float("inf")) for one in doubles]
    is_whole = reduce(and_, required + finite) & F.col("whole")
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
