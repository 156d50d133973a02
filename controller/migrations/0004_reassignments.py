"""Adds reassignments: partitions on their way to other brokers, and how that ended."""

import uuid
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models
from django.db.models.functions.datetime import Now

ACTIVE = models.Q(phase__in=("Init", "InProgress"))


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0003_ends_of_a_minute_ago")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="Reassignment",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("topic_id", models.UUIDField(help_text="Of the topic; it may be deleted by now.")),
                ("topic_name", models.CharField(max_length=249)),
                ("partition", models.IntegerField()),
                ("origin", ArrayField(models.IntegerField(), help_text="Replicas when it began.", size=None)),
                (
                    "target",
                    ArrayField(models.IntegerField(), help_text="Replicas when it is done.", size=None),
                ),
                ("phase", models.CharField(max_length=10)),
                ("principal", models.CharField(blank=True, default="", max_length=249)),
                (
                    "reason",
                    models.TextField(blank=True, default="", help_text="Why it ended before its target."),
                ),
                (
                    "asked_version",
                    models.BigIntegerField(help_text="metadata_version of the turn that was asked for it."),
                ),
                ("asked_place", models.IntegerField(help_text="Its place among those of that turn.")),
                (
                    "version",
                    models.BigIntegerField(help_text="metadata_version of the turn that last changed it."),
                ),
                ("asked_at", models.DateTimeField(db_default=Now())),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "db_table": "reassignment",
                "ordering": ("-asked_version", "asked_place"),
                "indexes": [
                    models.Index(fields=["-asked_version", "asked_place"], name="reassignment_by_turn")
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=ACTIVE,
                        fields=("topic_id", "partition"),
                        name="reassignment_is_the_only_active_one",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(phase__in=("Init", "InProgress", "Done", "Cancelled", "Failed")),
                        name="reassignment_phase_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(origin__len__gte=1, target__len__gte=1),
                        name="reassignment_has_replicas",
                    ),
                ],
            },
        ),
    ]
