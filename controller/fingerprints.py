"""This room says whether a page about the cluster would look different: short texts, read by live pages."""

from collections.abc import Sequence

from django.db import connection

CLUSTER = "cluster"
"""What the pages of the cluster, of its lists and of one broker watch."""

TOPIC = "topic "
"""A page about one topic watches `topic <name>`."""

_PROCESSES = """
           (SELECT COALESCE(sum(epoch), 0)::text || '.' || count(run) FROM lease),
           (SELECT count(*)::text || '.' || count(*) FILTER (WHERE ended) || '.'
                || count(*) FILTER (WHERE renewed_at < now() - interval '5 seconds') || '.'
                || count(*) FILTER (WHERE made_way_for <> '') FROM node_session),
           (SELECT count(*) || '.' || COALESCE(sum(metadata_version + broker_epoch), 0) FROM broker),
           (SELECT count(*) || '.' || COALESCE(sum(number), 0) FROM refusal)
"""
WITH_PROCESSES = f"concat_ws('/', {_PROCESSES})"
"""A column that changes whenever a lease changes hands, a node's run begins, ends, is silent or
makes way, a broker changes, or a request is refused.
"""
_OF_CLUSTER = f"""
    SELECT (SELECT count(*) || '.' || COALESCE(sum(version), 0) FROM partition),
           (SELECT COALESCE(sum(hashtext(topic_id::text)), 0)::text FROM topic),
           (SELECT COALESCE(max(metadata_version), 0)::text FROM cluster),
           (SELECT count(*) || '.' || COALESCE(sum(metadata_version + broker_epoch), 0) FROM broker),
           (SELECT count(*) || '.' || COALESCE(sum(hashtext(id || lagging::text || since)), 0) FROM lag_note),
           (SELECT COALESCE(sum(high_watermark), 0) || '.' || COALESCE(sum(size_bytes), 0)
            FROM partition_progress),
           (SELECT COALESCE(sum(hashtext(broker_id || '.' || at)), 0)::text FROM broker_condition),
           (SELECT COALESCE(sum(hashtext(id || '.' || at)), 0)::text FROM arrival),
           (SELECT COALESCE(sum(hashtext(id || state || since)), 0)::text FROM log_note),
           (SELECT COALESCE(sum(hashtext(application_name)), 0)::text FROM pg_stat_activity
            WHERE datname = current_database()
                AND (application_name LIKE 'muster-web-listen%' OR application_name LIKE 'muster:worker:w%')),
{_PROCESSES}
"""
_OF_HEALTH = 5
"""The first parts of the cluster's fingerprint: how safe the data is changes with these alone."""

_OF_TOPICS = f"""
    SELECT topic.name, topic.topic_id::text || '.' || topic.metadata_version || '/' || (
        SELECT count(*)::text || '.' || COALESCE(sum(partition.version), 0) || '.'
               || COALESCE(sum(progress.high_watermark), 0) || '.' || COALESCE(sum(progress.size_bytes), 0)
        FROM partition LEFT JOIN partition_progress AS progress ON progress.partition_id = partition.id
        WHERE partition.topic_id = topic.topic_id) || '/' || (
        SELECT count(*)::text || '.' || COALESCE(sum(version), 0) FROM reassignment
        WHERE reassignment.topic_id = topic.topic_id AND phase IN ('Init', 'InProgress')) || '/' || (
        SELECT COALESCE(sum(hashtext(arrival.id || '.' || arrival.at)), 0) FROM arrival
        JOIN reassignment ON reassignment.id = arrival.move_id
        WHERE reassignment.topic_id = topic.topic_id) || '/' || (
        SELECT COALESCE(sum(metadata_version), 0) FROM broker_configs) || '/' || (
        SELECT COALESCE(sum(hashtext(id || state || since)), 0) FROM log_note
        WHERE log_note.topic_id = topic.topic_id) || '/' || (
        SELECT COALESCE(sum(hashtext(id || lagging::text || since)), 0) FROM lag_note
        WHERE lag_note.topic_id = topic.topic_id) || '/' || (
        SELECT COALESCE(sum(version), 0) FROM election_loss WHERE election_loss.topic_id = topic.topic_id)
        || '/' || {WITH_PROCESSES}
    FROM topic WHERE topic.name = ANY (%(names)s)
"""


def database() -> str:
    """Which database is being read: what is kept of one is not told of another."""
    return str(connection.settings_dict["NAME"])


def of_cluster() -> str:
    """Changes whenever the page of brokers and partitions would."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_CLUSTER)
        return "/".join(cursor.fetchone())


def of_health(of_cluster: str) -> str:
    """The part of a fingerprint of the cluster that changes whenever how safe the data is does."""
    return "/".join(of_cluster.split("/")[:_OF_HEALTH])


def of_topics(names: Sequence[str]) -> dict[str, str]:
    """For each of these topics a text that changes whenever its page would; a deleted topic has none."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_TOPICS, {"names": list(names)})
        return dict(cursor.fetchall())
