"""Lets in no row of the cluster that its controller, or a broker, could not read; mends those that are there."""

from typing import ClassVar, Final

from django.db import migrations, models

from controller.row_constraints import holds_no_null, holds_texts_by_name

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
