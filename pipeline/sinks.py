"""This room writes: tables of PostgreSQL through JDBC."""

from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from pyspark.sql import DataFrame

ROWS_IN_A_BATCH = 5_000


def jdbc_options(database_url: str) -> dict[str, str]:
    """The JDBC address and login for `postgresql://user:password@host:port/name?…`.

    Raises ValueError if the address names no host or no database: JDBC knows no socket folders.
    """
    parts = urlsplit(database_url)
    name = parts.path.lstrip("/")
    if parts.scheme not in ("postgres", "postgresql") or not parts.hostname or not name:
        raise ValueError("the database must be given as postgresql://user:password@host:port/name")
    # What holds colons is an address of IPv6, whose brackets were taken off.
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    kept = urlencode([(key, value) for key, value in parse_qsl(parts.query) if key.startswith("ssl")])
    options = {
        "url": f"jdbc:postgresql://{host}:{parts.port or 5432}/{name}" + (f"?{kept}" if kept else ""),
        "driver": "org.postgresql.Driver",
        "user": unquote(parts.username or ""),
    }
    if parts.password is not None:
        options["password"] = unquote(parts.password)
    return options


def replace_table(frame: DataFrame, database_url: str, table: str) -> None:
    """Make `table` hold exactly `frame`; a job that runs twice leaves what it left the first time."""
    (
        frame.write.format("jdbc")
        .options(**jdbc_options(database_url))
        .option("dbtable", table)
        .option("truncate", "true")
        .option("batchsize", str(ROWS_IN_A_BATCH))
        .mode("overwrite")
        .save()
    )
