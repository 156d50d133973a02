"""This room checks how a PostgreSQL address is turned into what JDBC wants."""

import pytest

from pipeline.sinks import jdbc_options


def test_login_and_place_are_taken_from_the_address() -> None:
    options = jdbc_options("postgresql://muster:p%40ss@127.0.0.1:5433/muster")
    assert options == {
        "url": "jdbc:postgresql://127.0.0.1:5433/muster",
        "driver": "org.postgresql.Driver",
        "user": "muster",
        "password": "p@ss",
    }


def test_tls_settings_are_kept_and_others_are_not() -> None:
    options = jdbc_options("postgresql://u:p@db/muster?sslmode=require&application_name=x")
    assert options["url"] == "jdbc:postgresql://db:5432/muster?sslmode=require"


def test_an_address_of_ipv6_keeps_its_brackets() -> None:
    assert jdbc_options("postgresql://u@[::1]:5433/muster")["url"] == "jdbc:postgresql://[::1]:5433/muster"


@pytest.mark.parametrize(
    "address", ["postgresql:///muster?host=/run/postgresql", "mysql://db/muster", "postgresql://db"]
)
def test_an_address_that_jdbc_cannot_reach_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="postgresql://user:password@host:port/name"):
        jdbc_options(address)
