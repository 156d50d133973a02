"""Only the names of errors are kept, and Python has one that PostgreSQL has as well."""

import contextlib
from collections.abc import Callable

from psycopg import errors

from runtime.ports import Connection
from runtime.postgres import open_connection
from runtime.refusals import RefusalNotes, Refused, is_of_the_database


async def test_a_mistake_of_ours_is_not_told_as_what_the_database_did_not_take(fresh_database: str) -> None:
    notes = RefusalNotes("node-1")
    for error in (SystemError("returned NULL without setting an exception"), errors.SystemError("disk")):
        notes.add(Refused("controller", "cluster", ("Asked",), error))

    with contextlib.closing(open_connection(fresh_database, "muster-test")) as connection:

        async def query(function: Callable[[Connection], None]) -> None:
            function(connection)

        await notes.write(query)
        names = [
            name for (name,) in connection.execute("SELECT error FROM refusal ORDER BY error").fetchall()
        ]
    assert {name: is_of_the_database(name) for name in names} == {
        "builtins.SystemError": False,
        "SystemError": True,
    }
