"""Keeps what unclean elections have lost, as the replicas tell it afterwards."""

from typing import ClassVar

import django.contrib.postgres.fields
from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0013_how_far_moves_are")]
    operations: ClassVar = [
        migrations.CreateModel(
            "ElectionLoss",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic_id", models.UUIDField(help_text="Of the topic; it may be deleted by now.")),
                ("topic_name", models.CharField(db_collation="C", max_length=249)),
                ("partition", models.IntegerField()),
                ("leader_epoch", models.IntegerField(help_text="Of the election.")),
                ("leader", models.IntegerField(help_text="Who was elected.")),
                (
                    "isr",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.IntegerField(),
                        help_text="Who held all that was committed.",
                        size=None,
                    ),
                ),
                ("reason", models.TextField(help_text="Why records may be lost, and who asked for it.")),
                (
                    "committed",
                    models.BigIntegerField(help_text="Up to where, as the last leader had said.", null=True),
                ),
                ("committed_at", models.DateTimeField(help_text="When it said so.", null=True)),
                (
                    "start_offset",
                    models.BigIntegerField(
                        help_text="Where the new leader's log ended then; NULL: not told, or not known.",
                        null=True,
                    ),
                ),
                (
                    "told_at",
                    models.DateTimeField(
                        help_text="When the new leader told, if only that it forgot.", null=True
                    ),
                ),
                (
                    "cuts",
                    models.JSONField(
                        default=list,
                        help_text="What others held and lost: controller.core.loss_rows.Cut, each a list.",
                    ),
                ),
                ("cut_at", models.DateTimeField(help_text="When one of them told last.", null=True)),
                ("acknowledged_at", models.DateTimeField(null=True)),
                ("acknowledged_by", models.CharField(blank=True, default="", max_length=249)),
                ("acknowledged_why", models.TextField(blank=True, default="")),
                ("closed", models.BooleanField(default=False, help_text="Nobody will tell more of it.")),
                (
                    "version",
                    models.BigIntegerField(help_text="metadata_version of the turn that last changed it."),
                ),
                ("elected_at", models.DateTimeField(db_default=Now())),
            ],
            options={
                "db_table": "election_loss",
                "verbose_name_plural": "election losses",
                "ordering": ("-id",),
                "indexes": [
                    models.Index(name="election_loss_open", fields=["topic_id"], condition=Q(closed=False)),
                    models.Index(name="election_loss_by_topic", fields=["topic_name", "id"]),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        name="election_loss_is_unique", fields=("topic_id", "partition", "leader_epoch")
                    )
                ],
            },
        ),
    ]
