"""This room is the program of a node's spare process.

It reads item ids, one a line, from a pipe, and ends when the pipe does.
"""

import os
import sys

from muster.kernel.lean_imports import leave_out_what_serves_nobody


def main() -> None:
    """Do each item that is named on standard input; end at its end."""
    leave_out_what_serves_nobody()
    import django
    import structlog

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()

    from django.conf import settings

    from runtime.collecting import calm_collector
    from runtime.ports import ConnectionLost
    from runtime.postgres import Postgres, PostgresLink
    from runtime.tasks import perform_and_wake

    calm_collector()
    log = structlog.get_logger(__name__)
    database = Postgres(settings.DATABASE_DIRECT_URL, settings.MUSTER_NODE_NAME)
    link: PostgresLink | None = None
    for line in sys.stdin:
        try:
            link = link or database.connect(f"s{os.getpid()}", "spare")
            perform_and_wake(link, line.strip(), f"spare of {settings.MUSTER_NODE_NAME}"[:64])
        except ConnectionLost as error:
            log.warning("spare process lost its connection", error=str(error))
            link = None
        except Exception:
            # The owner takes the claim back and asks again; the others need not wait for a new process.
            log.exception("spare process could not do an item", item=line.strip())


if __name__ == "__main__":
    main()
