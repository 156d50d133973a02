"""This room checks transforms and result of the departures job on a handful of flights, in a real Spark."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def flight(**changed: Any) -> str:
    plain = {
        "time_hour": "2013-01-01T10:00:00Z",
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "dep_time": 517,
        "dep_delay": 2.0,
        "arr_delay": 11.0,
    }
    return json.dumps(plain | changed)


def rows(spark: "SparkSession", *values: str | None) -> list[tuple[Any, ...]]:
    from pipeline.transforms import flights

    records = spark.createDataFrame(
        [(b"N14228", None if value is None else value.encode()) for value in values],
        "key binary, value binary",
    )
    found = flights.by_route_and_hour(flights.decode(records)).collect()
    return sorted(tuple(row) for row in found)


def test_flights_of_one_route_and_hour_are_one_row(spark: "SparkSession") -> None:
    assert rows(spark, flight(dep_delay=2.0), flight(dep_delay=5.0)) == [("EWR", "IAH", 10, 2, 2, 3.5)]


def test_a_cancelled_flight_is_scheduled_but_did_not_depart(spark: "SparkSession") -> None:
    cancelled = flight(dep_time=None, dep_delay=None, arr_delay=None)
    assert rows(spark, flight(dep_delay=4.0), cancelled) == [("EWR", "IAH", 10, 2, 1, 4.0)]


def test_a_route_of_cancelled_flights_has_no_delay_rather_than_zero(spark: "SparkSession") -> None:
    assert rows(spark, flight(dep_time=None, dep_delay=None)) == [("EWR", "IAH", 10, 1, 0, None)]


def test_routes_and_hours_are_kept_apart(spark: "SparkSession") -> None:
    found = rows(spark, flight(), flight(dest="MIA"), flight(time_hour="2013-01-01T11:00:00Z"))
    assert [row[:3] for row in found] == [("EWR", "IAH", 10), ("EWR", "IAH", 11), ("EWR", "MIA", 10)]


NO_FLIGHT = ("not a flight", '{"gate": "A1"}', "null", "", flight(dest=None), None, f"[{flight()}]")
MORE_THAN_A_FLIGHT = (f"{flight()} and more", flight() + flight(dest="MIA"), f"{flight()}, {flight()}")
# Of who knew what a value was read within, one flight was in no count.
WRAPPED = (
    f'{flight()},"flight":{flight(dest="MIA")}',
    f'{flight()},"whole":true}} {flight(dest="MIA")}',
    f"{flight()}] [{flight()}",
)
NO_NUMBER = (flight(dep_delay=float("nan")), flight(dep_delay="Infinity"))
TOO_LARGE = tuple(flight(dep_delay="huge").replace('"huge"', number) for number in ("1e999", "-1e999"))


@pytest.mark.parametrize("value", [*NO_FLIGHT, *MORE_THAN_A_FLIGHT, *WRAPPED, *NO_NUMBER, *TOO_LARGE])
def test_a_value_that_is_not_a_flight_fails_the_job(spark: "SparkSession", value: str | None) -> None:
    with pytest.raises(Exception, match="MALFORMED_RECORD"):
        rows(spark, flight(), value)


def test_a_job_that_runs_again_leaves_what_it_finds_now(spark: "SparkSession", fresh_database: str) -> None:
    from pipeline.schemas import ROUTE_HOUR, ROUTE_HOUR_TABLE
    from pipeline.sinks import replace_table

    first = [("EWR", "IAH", hour, 2, 1, 4.0) for hour in range(24)]
    for expected in (first, first, [("JFK", "MIA", 10, 1, 0, None)]):
        replace_table(spark.createDataFrame(expected, ROUTE_HOUR), fresh_database, ROUTE_HOUR_TABLE)
        with psycopg.connect(fresh_database) as connection:
            stored = connection.execute(f"SELECT * FROM {ROUTE_HOUR_TABLE} ORDER BY hour").fetchall()
        assert stored == expected


def test_a_job_that_fails_leaves_the_table_as_it_was_and_nothing_beside_it(
    spark: "SparkSession", fresh_database: str
) -> None:
    from pyspark.sql import functions

    from pipeline.schemas import ROUTE_HOUR, ROUTE_HOUR_TABLE
    from pipeline.sinks import replace_table

    before = [("EWR", "IAH", hour, 2, 1, 4.0) for hour in range(24)]
    replace_table(spark.createDataFrame(before, ROUTE_HOUR), fresh_database, ROUTE_HOUR_TABLE)
    # The last of its tasks fails, when others have written already.
    broken = spark.createDataFrame(before, ROUTE_HOUR).repartition(4, "hour")
    failing = functions.when(
        functions.col("hour") == 23, functions.raise_error(functions.lit("no 23rd hour"))
    )
    broken = broken.withColumn("scheduled", failing.otherwise(functions.col("scheduled")).cast("bigint"))
    with pytest.raises(Exception, match="no 23rd hour"):
        replace_table(broken, fresh_database, ROUTE_HOUR_TABLE)
    with psycopg.connect(fresh_database) as connection:
        stored = connection.execute(f"SELECT * FROM {ROUTE_HOUR_TABLE} ORDER BY hour").fetchall()
        like = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'pipeline%'"
        tables = connection.execute(like).fetchall()
    assert stored == before
    assert tables == [(ROUTE_HOUR_TABLE,)]


def test_whoever_reads_the_table_meanwhile_meets_what_was_there(
    spark: "SparkSession", fresh_database: str
) -> None:
    """Nobody's look waits for the job, nor does the job wait for a look that is under way."""
    from pipeline.schemas import ROUTE_HOUR, ROUTE_HOUR_TABLE
    from pipeline.sinks import replace_table

    count = f"SELECT count(*) FROM {ROUTE_HOUR_TABLE}"
    first = [("EWR", "IAH", hour, 2, 1, 4.0) for hour in range(24)]
    replace_table(spark.createDataFrame(first, ROUTE_HOUR), fresh_database, ROUTE_HOUR_TABLE)
    with psycopg.connect(fresh_database) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert reader.execute(count).fetchone() == (24,)
        replace_table(spark.createDataFrame(first[:1], ROUTE_HOUR), fresh_database, ROUTE_HOUR_TABLE)
        assert reader.execute(count).fetchone() == (24,)
        reader.commit()
        assert reader.execute(count).fetchone() == (1,)


def test_of_two_jobs_that_end_at_once_the_table_holds_what_the_later_one_found(
    spark: "SparkSession", fresh_database: str
) -> None:
    from pipeline.schemas import ROUTE_HOUR, ROUTE_HOUR_TABLE
    from pipeline.sinks import replace_table

    first = [("EWR", "IAH", hour, 2, 1, 4.0) for hour in range(24)]
    replace_table(spark.createDataFrame(first, ROUTE_HOUR), fresh_database, ROUTE_HOUR_TABLE)
    later = [("JFK", "MIA", 10, 1, 0, None)]
    frame = spark.createDataFrame(later, ROUTE_HOUR)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    waiting += " AND wait_event_type = 'Lock'"
    with (
        ThreadPoolExecutor(1) as thread,
        psycopg.connect(fresh_database, autocommit=True) as looker,
        psycopg.connect(fresh_database) as earlier,
    ):
        earlier.execute(f"DELETE FROM {ROUTE_HOUR_TABLE}")
        earlier.execute(f"INSERT INTO {ROUTE_HOUR_TABLE} VALUES ('EWR', 'IAH', 7, 2, 1, 4.0)")
        replaced = thread.submit(replace_table, frame, fresh_database, ROUTE_HOUR_TABLE)
        while looker.execute(waiting).fetchone() == (0,) and not replaced.done():
            pass
        earlier.commit()
        replaced.result(60)
        assert looker.execute(f"SELECT * FROM {ROUTE_HOUR_TABLE}").fetchall() == later


def test_what_is_counted_goes_to_the_column_of_its_name_wherever_that_stands(
    spark: "SparkSession", fresh_database: str
) -> None:
    from pipeline.schemas import ROUTE_HOUR, ROUTE_HOUR_TABLE
    from pipeline.sinks import replace_table

    columns = "origin text, dest text, hour int, departures bigint, scheduled bigint"
    with psycopg.connect(fresh_database) as connection:
        connection.execute(
            f"CREATE TABLE {ROUTE_HOUR_TABLE} ({columns}, departure_delay_minutes double precision)"
        )
    counted = [("EWR", "IAH", 7, 2, 1, 4.0)]
    replace_table(spark.createDataFrame(counted, ROUTE_HOUR), fresh_database, ROUTE_HOUR_TABLE)
    with psycopg.connect(fresh_database) as connection:
        stored = connection.execute(f"SELECT scheduled, departures FROM {ROUTE_HOUR_TABLE}").fetchall()
    assert stored == [(2, 1)]


def test_what_a_job_that_was_killed_left_beside_the_table_is_dropped_by_the_next(
    spark: "SparkSession", fresh_database: str
) -> None:
    """But not what another one writes now, nor a copy that somebody made."""
    from pipeline.schemas import ROUTE_HOUR, ROUTE_HOUR_TABLE
    from pipeline.sinks import _claimed, replace_table

    left, written, copy = (
        f"{ROUTE_HOUR_TABLE}{end}" for end in ("_beside_0badcafe", "_beside_0badf00d", "_20261127")
    )
    with psycopg.connect(fresh_database) as connection:
        for name in (left, written, copy):
            connection.execute(f"CREATE TABLE {name} (hour integer)")
    one = spark.createDataFrame([("EWR", "IAH", 10, 2, 1, 4.0)], ROUTE_HOUR)
    like = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'pipeline%'"
    with psycopg.connect(fresh_database, autocommit=True) as looker:
        with _claimed(fresh_database, written):
            replace_table(one, fresh_database, ROUTE_HOUR_TABLE)
            assert {name for (name,) in looker.execute(like)} == {ROUTE_HOUR_TABLE, written, copy}
        replace_table(one, fresh_database, ROUTE_HOUR_TABLE)
        assert {name for (name,) in looker.execute(like)} == {ROUTE_HOUR_TABLE, copy}


def test_a_job_claims_what_it_writes_and_holds_up_no_vacuum(
    spark: "SparkSession", fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever an administrator has set for the database."""
    from pipeline import sinks
    from pipeline.schemas import ROUTE_HOUR, ROUTE_HOUR_TABLE

    name = fresh_database.rpartition("/")[2]
    with psycopg.connect(fresh_database, autocommit=True) as administrator:
        administrator.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
        administrator.execute(f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '100ms'")
        administrator.execute(f"ALTER DATABASE {name} SET transaction_timeout = '2s'")
    claims: list[tuple[Any, ...]] = []
    run = sinks._run

    def look_and_run(*stated: Any) -> None:
        with psycopg.connect(fresh_database) as looker:
            held = "SELECT backend_xmin FROM pg_locks JOIN pg_stat_activity USING (pid)"
            claims.extend(looker.execute(f"{held} WHERE locktype = 'advisory' AND granted").fetchall())
        run(*stated)

    monkeypatch.setattr(sinks, "_run", look_and_run)
    one = spark.createDataFrame([("EWR", "IAH", 10, 2, 1, 4.0)], ROUTE_HOUR)
    sinks.replace_table(one, fresh_database, ROUTE_HOUR_TABLE)
    assert claims == [(None,)]
