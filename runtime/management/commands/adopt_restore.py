"""This room makes a restored PostgreSQL the cluster's, above all that the lost one may have counted."""

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from runtime import cluster, succession
from runtime.ports import Connection
from runtime.postgres import open_connection, told
from runtime.succession import LIFT, MOST_LIFTS, ROOM


class Command(BaseCommand):
    """Each run lifts again: harmless, and needed once after each restore."""

    help = (
        "After PostgreSQL was restored from a backup: lift every epoch, generation and version above what may"
        " have been given out since the backup was made, and accept this PostgreSQL as the cluster's."
        " Nothing may run on the one that it replaces. What was acknowledged since the backup is lost."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """By how much, where somebody knows better than the brokers."""
        parser.add_argument(
            "--by",
            type=int,
            metavar="NUMBER",
            help=f"Lift by this, from {LIFT:,} to {MOST_LIFTS * LIFT:,}, whatever brokers have stated; by no"
            f" more than is needed, for leader epochs end at {ROOM:,}, and behind it nothing is led.",
        )
        parser.add_argument(
            "--no-input", action="store_true", help="Ask nothing; nor is anybody asked where no terminal is."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Lift, and say what was."""
        by: int | None = options["by"]
        if by is not None and not LIFT <= by <= MOST_LIFTS * LIFT:
            raise CommandError(f"--by is a number from {LIFT} to {MOST_LIFTS * LIFT}")
        connection = open_connection(settings.DATABASE_DIRECT_URL, "muster-tool")
        try:
            with told(connection):
                if sys.stdin is not None and sys.stdin.isatty() and not options["no_input"]:
                    _ask(connection)
                row, by = succession.adopt(connection, settings.MUSTER_NODE_NAME, by)
        except succession.NotBelieved as error:
            raise CommandError(f"{error}. {_advice(error.lacking, error.enough)}") from error
        except cluster.WrongDatabase as error:
            raise CommandError(str(error)) from error
        finally:
            connection.close()
        self.stdout.write(
            f"cluster {row.cluster_id} goes on in PostgreSQL {row.system_identifier},"
            f" timeline {row.timeline};"
            f" everything counted was lifted by {by:,}. Start all brokers: a partition of more than one"
            " replica is led when all of them have shown their logs"
        )


def _ask(connection: Connection) -> None:
    """Whoever types this beside a copy that lives has brokers set logs aside. Raises CommandError."""
    [(where, newest)] = connection.execute(
        "SELECT format('%s at %s', current_database(), coalesce(host(inet_server_addr()), 'a socket')),"
        " (SELECT coalesce(max(at)::text, 'the beginning') FROM journal)"
    ).fetchall()
    question = (
        f"Database {where}: what was acknowledged after {newest} and is not here is lost, every member and"
        " broker comes again, and brokers set logs aside of topics that it does not know. Nothing may run on"
        " the copy that it replaces. Type yes to go on: "
    )
    # Not where what it says is written to a file.
    sys.stderr.write(question)
    sys.stderr.flush()
    try:
        said = input()
    except EOFError:
        said = ""
    if said.strip() != "yes":
        raise CommandError("Nothing was changed.")


def _advice(lacking: int, enough: int) -> str:
    """What to say where a broker is not believed that states so much more; only what can be said here."""
    ahead = "If another copy of the database was ahead so far, "
    most = MOST_LIFTS * LIFT
    times, rest = lacking // most, max(LIFT, lacking % most + 1)
    if not times:
        ahead += "say --by NUMBER, which must be above that. If not, "
    elif times * most + rest < ROOM:
        # By no more than that: whatever is lifted to the end of its room has no leader any more.
        how_often = "once" if times == 1 else f"{times} times"
        ahead += f"say --by {most} {how_often}, then --by {rest}. If not, "
    else:
        ahead = "No other copy was ahead so far and had a leader left: "
    return (
        f"{ahead}say --by {enough}: the others come in, and that broker stays out until it has a new data"
        " folder."
    )
