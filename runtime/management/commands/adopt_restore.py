"""This room makes a restored PostgreSQL the cluster's, above all that the lost one may have counted."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from runtime import cluster, succession
from runtime.postgres import open_connection, told


class Command(BaseCommand):
    """Each run lifts again: harmless, and needed once after each restore."""

    help = (
        "After PostgreSQL was restored from a backup: lift every epoch, generation and version above what may"
        " have been given out since the backup was made, and accept this PostgreSQL as the cluster's."
        " Nothing may run on the one that it replaces. What was acknowledged since the backup is lost."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Lift, and say what was."""
        connection = open_connection(settings.DATABASE_DIRECT_URL, "muster-tool")
        try:
            with told(connection):
                row, by = succession.adopt(connection, settings.MUSTER_NODE_NAME)
        except cluster.WrongDatabase as error:
            raise CommandError(str(error)) from error
        finally:
            connection.close()
        self.stdout.write(
            f"cluster {row.cluster_id} goes on in PostgreSQL {row.system_identifier},"
            f" timeline {row.timeline};"
            f" everything counted was lifted by {by:,}"
        )
