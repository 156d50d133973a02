"""Lets the cluster's row tell whether its tables were made anew: a dump was read in, or the database copied."""

from typing import ClassVar

from django.db import migrations, models

SET = """
UPDATE cluster SET location =
    (SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || 'cluster'::regclass::oid
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runtime", "0010_which_version_a_node_runs")]
    operations: ClassVar = [
        migrations.AddField(
            "cluster",
            "location",
            models.CharField(
                max_length=24,
                default="",
                db_default="",
                blank=True,
                help_text="By oid, the database and the table that these rows were made in; empty: not known.",
            ),
        ),
        migrations.RunSQL(SET, migrations.RunSQL.noop),
    ]
