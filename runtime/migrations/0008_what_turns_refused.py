"""Adds what turns refused by a mistake of ours, so that pages can tell of it."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runtime", "0007_turns_that_took_partitions_away")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="Refusal",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("node", models.CharField(max_length=64, help_text="On whose log the traceback stands.")),
                ("lane", models.CharField(max_length=64)),
                (
                    "events",
                    models.CharField(
                        max_length=200, help_text="Which kinds; empty: what a turn goes on with by itself."
                    ),
                ),
                ("error", models.CharField(max_length=100)),
                (
                    "key",
                    models.CharField(max_length=255, help_text="The group, or the cluster, of the last one."),
                ),
                (
                    "text",
                    models.CharField(max_length=300, help_text="What the error said first, the last time."),
                ),
                ("number", models.BigIntegerField(help_text="How many since `first_at`.")),
                ("first_at", models.DateTimeField(db_default=Now())),
                ("last_at", models.DateTimeField(db_default=Now())),
            ],
            options={
                "db_table": "refusal",
                "ordering": ("-last_at",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("node", "lane", "events", "error"), name="refusal_of_a_kind"
                    )
                ],
            },
        ),
    ]
