"""Errors of a database that takes nothing are no mistake of ours, though only their names were kept."""

from psycopg import errors

from runtime.ports import is_unable
from runtime.refusals import is_of_the_database
from runtime.turn import GaveUp


def test_every_error_of_a_database_that_is_unable_is_known_by_its_name() -> None:
    unable = [name for name, kind in vars(errors).items() if isinstance(kind, type) and is_unable(kind)]  # type: ignore[arg-type]
    assert "DiskFull" in unable and "ReadOnlySqlTransaction" in unable
    assert [name for name in unable if not is_of_the_database(name)] == []
    assert is_of_the_database(GaveUp.__name__)


def test_what_we_wrote_wrongly_is_not_the_databases() -> None:
    for name in ("UniqueViolation", "NotLoaded", "NotSpoken", "KeyError", "VersionConflict"):
        assert not is_of_the_database(name)
