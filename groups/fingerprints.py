"""This room says whether a page about groups would look different: short texts, read by live pages.

What only time changes (a commit that grows old, a rebalance that takes too long) is in no row: an open page
reads itself again now and then for that.
"""

from collections.abc import Sequence

from django.db import connection

from controller.fingerprints import WITH_PROCESSES

OVERVIEW, GROUPS = "overview", "groups"
"""What the overview and the lists of groups watch."""

GROUP = "group "
"""A page about one group watches `group <name>`."""

_OF_LISTS = """
    SELECT (SELECT count(*)::text || '.' || COALESCE(sum(version), 0) || '.'
                   || COALESCE(sum(hashtext(name)), 0) FROM consumer_group),
           (SELECT count(*)::text || '.' || COALESCE(sum(version), 0) FROM committed_offset)
"""
_OF_GROUPS = f"""
    SELECT grouped.name, grouped.version::text || '/' || COALESCE((
        SELECT sum(committed.version)::text || '.' || sum(committed.committed_offset)
        FROM committed_offset AS committed WHERE committed.group_name = grouped.name), '') || '/' ||
      COALESCE((
        SELECT sum(COALESCE(progress.high_watermark, 0))::text || '.' || sum(partition.version)
        FROM partition LEFT JOIN partition_progress AS progress ON progress.partition_id = partition.id
        WHERE partition.topic_id IN (
            SELECT topic_id FROM committed_offset WHERE group_name = grouped.name UNION
            SELECT topic_id FROM partition_ownership WHERE group_name = grouped.name)), '')
      || COALESCE((SELECT '/' || told_at FROM group_waiting WHERE group_name = grouped.name), '')
      || '/' || {WITH_PROCESSES}
    FROM consumer_group AS grouped WHERE grouped.name = ANY (%(names)s)
"""


def of_lists(cluster: str) -> str:
    """Changes whenever the overview or a list of groups would; `cluster` is the cluster's own fingerprint."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_LISTS)
        listed = "/".join(cursor.fetchone())
    return f"{listed}/{cluster}"


def of_groups(names: Sequence[str]) -> dict[str, str]:
    """For each of these groups a text that changes whenever its page would; a deleted group has none."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_GROUPS, {"names": list(names)})
        return dict(cursor.fetchall())
