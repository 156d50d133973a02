"""This room holds the schemas of what the jobs read and write, each in one place."""

from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

FLIGHT = StructType(
    [
        StructField("time_hour", TimestampType(), nullable=False),
        StructField("carrier", StringType(), nullable=False),
        StructField("flight", IntegerType(), nullable=False),
        StructField("tailnum", StringType(), nullable=True),
        StructField("origin", StringType(), nullable=False),
        StructField("dest", StringType(), nullable=False),
        StructField("dep_time", IntegerType(), nullable=True),
        StructField("dep_delay", DoubleType(), nullable=True),
        StructField("arr_delay", DoubleType(), nullable=True),
    ]
)
"""One flight, the JSON value of a record of `flights`; `dep_delay` in minutes, null if it never left."""

ROUTE_HOUR = StructType(
    [
        StructField("origin", StringType(), nullable=False),
        StructField("dest", StringType(), nullable=False),
        StructField("hour", IntegerType(), nullable=False),
        StructField("scheduled", LongType(), nullable=False),
        StructField("departures", LongType(), nullable=False),
        StructField("departure_delay_minutes", DoubleType(), nullable=True),
    ]
)
"""One route at one hour of the day (UTC): flights planned, flights that left, their mean delay."""

ROUTE_HOUR_TABLE = "pipeline_route_hour"
