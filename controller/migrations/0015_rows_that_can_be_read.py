"""Lets in no row of the cluster that its controller, or a broker, could not read; mends those that are there."""

from typing import ClassVar, Final

import structlog
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from controller.row_constraints import holds_no_null, holds_texts_by_name

log = structlog.get_logger(__name__)

TEXTS: Final = (
    ("topic", "topic", "configs", "topic_configs_are_texts"),
    ("brokerconfig", "broker_configs", "configs", "broker_configs_are_texts"),
    ("broker", "broker", "endpoints", "broker_endpoints_are_texts"),
    ("broker", "broker", "static_configs", "broker_static_configs_are_texts"),
)


def _mended(table: str, column: str) -> migrations.RunSQL:
    """A number or a flag as the text that was meant; what is neither is left out."""
    return migrations.RunSQL(
        f"""
        UPDATE {table} SET {column} = coalesce(
            (SELECT jsonb_object_agg(key, value #>> '{{}}')
             FROM jsonb_each(CASE jsonb_typeof({column}) WHEN 'object' THEN {column} ELSE '{{}}' END)
             WHERE jsonb_typeof(value) IN ('string', 'number', 'boolean')), '{{}}')
        WHERE jsonb_typeof({column}) <> 'object' OR EXISTS (
            SELECT FROM jsonb_each(CASE jsonb_typeof({column}) WHEN 'object' THEN {column} ELSE '{{}}' END)
            WHERE jsonb_typeof(value) <> 'string')
        """,
        migrations.RunSQL.noop,
    )


_PLACE_UNPLACED: Final = """
WITH unplaced AS (SELECT id, topic_id FROM partition WHERE array_length(array_remove(assigned, NULL), 1) IS NULL),
placed AS (
    SELECT id, coalesce(
        (SELECT array_remove(other.assigned, NULL) FROM partition AS other
         WHERE other.topic_id = unplaced.topic_id AND array_length(array_remove(other.assigned, NULL), 1) > 0
         ORDER BY other.partition LIMIT 1),
        (SELECT array_agg(broker_id) FROM (
             SELECT broker_id FROM broker WHERE broker_id > 0 ORDER BY broker_epoch = 0, broker_id LIMIT 1) AS one),
        '{1}') AS assigned
    FROM unplaced)
UPDATE partition SET assigned = placed.assigned FROM placed, topic
WHERE partition.id = placed.id AND topic.topic_id = partition.topic_id
RETURNING topic.name, partition.partition, partition.assigned
"""
"""Of a partition that names no replica nobody ever led one, or it would be in its ISR: no record is anywhere."""


def _place(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Where the first other partition of its topic is, or at the first broker; it can be moved from there."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_PLACE_UNPLACED)
        for topic, partition, assigned in cursor.fetchall():
            log.warning(
                "placed_a_partition_without_replicas", topic=topic, partition=partition, replicas=assigned
            )


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0014_what_elections_lost")]
    operations: ClassVar = [
        *(_mended(table, column) for _, table, column, _ in TEXTS),
        *(
            migrations.AddConstraint(
                model, models.CheckConstraint(name=name, condition=holds_texts_by_name(column))
            )
            for model, _, column, name in TEXTS
        ),
        migrations.RunPython(_place, migrations.RunPython.noop),
        migrations.RunSQL(
            """
            UPDATE partition SET assigned = array_remove(assigned, NULL)
            WHERE array_position(assigned, NULL) IS NOT NULL
            """,
            migrations.RunSQL.noop,
        ),
        migrations.AddConstraint(
            "partition",
            models.CheckConstraint(name="partition_knows_its_replicas", condition=holds_no_null("assigned")),
        ),
    ]
