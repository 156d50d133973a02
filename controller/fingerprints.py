"""This room says whether the page of the cluster would look different: one short text, read by live pages."""

from django.db import connection

CLUSTER = "cluster"
"""What the page of the cluster watches."""

_OF_PROCESSES = """
    SELECT (SELECT COALESCE(sum(epoch), 0)::text || '.' || count(run) FROM lease),
           (SELECT count(*)::text || '.' || count(*) FILTER (WHERE ended) || '.'
                || count(*) FILTER (WHERE renewed_at < now() - interval '5 seconds') FROM node_session),
           (SELECT count(*) || '.' || COALESCE(sum(metadata_version + broker_epoch), 0) FROM broker)
"""
_OF_CLUSTER = """
    SELECT (SELECT count(*) || '.' || COALESCE(sum(version), 0) FROM partition),
           (SELECT COALESCE(sum(hashtext(topic_id::text)), 0)::text FROM topic),
           (SELECT COALESCE(sum(high_watermark), 0)::text FROM partition_progress)
"""


def database() -> str:
    """Which database is being read: what is kept of one is not told of another."""
    return str(connection.settings_dict["NAME"])


def of_processes() -> str:
    """Changes whenever a lease changes hands, a node's run begins, ends or is silent, or a broker changes."""
    return _text(_OF_PROCESSES)


def of_cluster() -> str:
    """Changes whenever the page of brokers and partitions would."""
    return f"{_text(_OF_CLUSTER)}/{of_processes()}"


def _text(statement: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return "/".join(cursor.fetchone())
