"""Adds for whom an open rebalance waits, as the group's owner notes it for pages."""

from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("groups", "0007_racks_and_standbys"),
    ]

    operations: ClassVar = [
        migrations.CreateModel(
            name="GroupWaiting",
            fields=[
                (
                    "group",
                    models.OneToOneField(
                        db_column="group_name",
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="waiting",
                        serialize=False,
                        to="groups.consumergroup",
                    ),
                ),
                ("phase", models.CharField(max_length=19)),
                ("waits_for", models.JSONField(help_text="The first of the members that are missing.")),
                ("missing", models.IntegerField()),
                ("arrived", models.IntegerField()),
                ("ends_at", models.DateTimeField(null=True)),
                ("told_at", models.DateTimeField()),
            ],
            options={"db_table": "group_waiting"},
        ),
    ]
