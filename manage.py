#!/usr/bin/env python
"""The door of every command of the control plane."""

import os
import sys

PEOPLES = ("changepassword", "create_token", "create_user", "createsuperuser", "login_link")
"""Commands that ask for a password, or take a name as long as somebody types it."""

EMPTIES = ("flush",)
"""Django's own, which empty every table of the database, of a cluster that runs, too."""


def main() -> None:
    """Run the management command named on the command line; what a person can mend fails with one line.

    Ctrl-C is no failure of ours, also while modules are still being loaded.
    """
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(130)


def _run() -> None:
    from kafkaserver.compiled import use_what_is_compiled
    from muster.kernel.environment import SettingError
    from muster.kernel.lean_imports import leave_out_what_serves_nobody
    from standalone.surroundings import STACK_COMMANDS, keep_what_reaches_a_stack

    leave_out_what_serves_nobody()
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command in EMPTIES:
        sys.exit(
            f"manage.py {command}: all that the cluster knows would be lost."
            " `make clean` deletes a stopped stack; whoever means it drops the database."
        )
    if command in STACK_COMMANDS:
        keep_what_reaches_a_stack(os.environ)
    # This product has no other settings module, whatever the shell was told for another one.
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    from django.core.management import execute_from_command_line
    from django.db import DataError, OperationalError, ProgrammingError
    from psycopg import OperationalError as LinkError
    from psycopg.errors import UndefinedTable

    from runtime.ports import ConnectionLost

    try:
        if command == "run_node":
            use_what_is_compiled(os.environ)
        execute_from_command_line(sys.argv)
    except EOFError:
        # In another command a pipe that ended, of which a traceback tells more.
        if command not in PEOPLES:
            raise
        sys.exit(f"manage.py {command}: nothing was typed, and nothing was done.")
    except SettingError as error:
        sys.exit(f"manage.py: {error}")
    except (OperationalError, LinkError, ConnectionLost) as error:
        sys.exit(f"manage.py {command}: {described(error)}")
    except DataError as error:
        # A name that is longer than its column.
        if command not in PEOPLES:
            raise
        sys.exit(f"manage.py {command}: {str(error).strip()}; nothing was done.")
    except ProgrammingError as error:
        if not isinstance(error.__cause__, UndefinedTable):
            raise
        sys.exit(f"manage.py {command}: {described(error)}")


def described(error: Exception) -> str:
    """Which database was asked, without its password, and what it or libpq said."""
    from django.conf import settings

    entry = settings.DATABASES["default"]
    where = f"{entry['HOST'] or 'its socket'}:{entry['PORT'] or 5432}/{entry['NAME']}"
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return (
        f"PostgreSQL at {where} cannot be used: {said}\n"
        "Is a stack running in MUSTER_HOME (`make status`)? For another database set DATABASE_URL."
    )


if __name__ == "__main__":
    main()
