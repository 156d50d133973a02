"""This room makes the rows without which no node starts: the cluster, and a lease for each lane."""

import uuid
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from runtime import cluster
from runtime.ports import CONTROLLER_LANE, SHARD_COUNT, shard_lane
from runtime.postgres import PostgresLink, open_connection

LANES = [CONTROLLER_LANE, *(shard_lane(shard) for shard in range(SHARD_COUNT))]


class Command(BaseCommand):
    """Idempotent; a second run changes nothing."""

    help = "Store the cluster's row and a lease for the controller and for each shard of groups."

    def handle(self, *args: Any, **options: Any) -> None:
        """Store what is missing, then say which cluster this is."""
        link = PostgresLink(open_connection(settings.DATABASE_DIRECT_URL, "muster-tool"))
        try:
            link.transaction(lambda connection: cluster.initialise(connection, uuid.uuid4(), LANES))
            pid = link.connection.info.backend_pid
            try:
                row = link.call(lambda connection: cluster.refuse_wrong_database(connection, pid))
            except cluster.ReadIn as error:
                # Nodes wait; under `make up` the database runs no longer than what it starts.
                self.stderr.write(str(error))
                row = link.call(cluster.read)
        except cluster.WrongDatabase as error:
            raise CommandError(str(error)) from error
        finally:
            link.close()
        self.stdout.write(f"cluster {row.cluster_id}")
