"""This room reads who holds which lease, for people."""

from dataclasses import dataclass

from django.db import connection

from runtime.models import Cluster

_HOLDER = """
    SELECT session.node, lease.epoch FROM lease
    JOIN node_session AS session ON session.run = lease.run AND NOT session.ended
    WHERE lease.name = %s
"""


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The node that may write a lane, and the epoch it proves this with."""

    node: str
    epoch: int


def holder_of(lane: str) -> LeaseHolder | None:
    """Who holds the lease of `lane`; None while nobody does."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLDER, [lane])
        row = cursor.fetchone()
    return LeaseHolder(*row) if row else None


def lanes_without_owner() -> int:
    """How many of the leases nobody holds: their groups do not move."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM lease WHERE NOT EXISTS "
            "(SELECT FROM node_session AS session WHERE session.run = lease.run AND NOT session.ended)"
        )
        (number,) = cursor.fetchone()
    return int(number)


def metadata_version() -> int | None:
    """The version of the last controller turn; None before the cluster was initialised."""
    return Cluster.objects.values_list("metadata_version", flat=True).first()
