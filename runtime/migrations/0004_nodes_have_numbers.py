"""Adds the numbers of nodes, given once, and takes in the nodes that have run so far."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runtime", "0003_when_a_run_was_last_heard")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="NodeIdentity",
            fields=[
                (
                    "node_id",
                    models.AutoField(
                        primary_key=True, help_text="From 10,001; brokers are below.", serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=64, unique=True, help_text="As at each of its starts.")),
                ("given_at", models.DateTimeField(db_default=Now())),
            ],
            options={
                "db_table": "node_identity",
                "ordering": ("node_id",),
                "verbose_name_plural": "node identities",
            },
        ),
        migrations.RunSQL(
            "ALTER TABLE node_identity ALTER COLUMN node_id RESTART WITH 10001", migrations.RunSQL.noop
        ),
        migrations.RunSQL(
            "INSERT INTO node_identity (name, given_at)"
            " SELECT node, min(started_at) FROM node_session GROUP BY node ORDER BY min(started_at), node",
            migrations.RunSQL.noop,
        ),
        migrations.AlterField(
            "nodesession",
            "addresses",
            models.JSONField(
                default=dict, help_text='By kind: {"websocket": "ws://host:port", "kafka": "host:port"}.'
            ),
        ),
    ]
