"""This room says whether the page of the cluster would look different: one short text, read by live pages."""

from django.db import connection

CLUSTER = "cluster"
"""What the page of the cluster watches."""

_OF_LEASES = """
    SELECT (SELECT COALESCE(sum(epoch), 0)::text || '.' || count(run) FROM lease),
           (SELECT count(*)::text || '.' || count(*) FILTER (WHERE ended) || '.'
                || count(*) FILTER (WHERE renewed_at < now() - interval '5 seconds') FROM node_session)
"""
_OF_CLUSTER = """
    SELECT (SELECT count(*) || '.' || COALESCE(sum(metadata_version + broker_epoch), 0) FROM broker),
           (SELECT count(*) || '.' || COALESCE(sum(version), 0) FROM partition),
           (SELECT COALESCE(sum(high_watermark), 0)::text FROM partition_progress)
"""


def of_leases() -> str:
    """Changes whenever a lease changes hands or a node's run begins or ends."""
    return _text(_OF_LEASES)


def of_cluster() -> str:
    """Changes whenever the page of brokers and partitions would."""
    return f"{_text(_OF_CLUSTER)}/{of_leases()}"


def _text(statement: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return "/".join(cursor.fetchone())
