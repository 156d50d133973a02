"""Adds how brokers are, as they say themselves: their disks, their logs in trouble, clients that wait."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models import CASCADE, Q
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0010_what_brokers_start_with")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="BrokerCondition",
            fields=[
                (
                    "broker",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=CASCADE,
                        primary_key=True,
                        related_name="condition",
                        serialize=False,
                        to="controller.broker",
                    ),
                ),
                (
                    "disk_total_bytes",
                    models.BigIntegerField(null=True, help_text="Of the file system of its logs."),
                ),
                ("disk_usable_bytes", models.BigIntegerField(null=True)),
                (
                    "disk_reserve_bytes",
                    models.BigIntegerField(null=True, help_text="With less it takes no records."),
                ),
                (
                    "short_since",
                    models.DateTimeField(null=True, help_text="Since when less is usable than the reserve."),
                ),
                (
                    "throttled",
                    models.JSONField(
                        default=list,
                        help_text="Clients that wait: muster.messages.link.condition.ThrottledClient.",
                    ),
                ),
                (
                    "throttled_more",
                    models.IntegerField(default=0, help_text="How many more wait than are named."),
                ),
                ("at", models.DateTimeField(db_default=Now())),
            ],
            options={"db_table": "broker_condition"},
        ),
        migrations.CreateModel(
            name="LogNote",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("broker_id", models.IntegerField()),
                ("topic_id", models.UUIDField(help_text="Of the topic; it may be deleted by now.")),
                ("partition", models.IntegerField()),
                ("state", models.CharField(max_length=10)),
                ("why", models.TextField(default="", blank=True)),
                (
                    "end_offset",
                    models.BigIntegerField(null=True, help_text="Where the log ends; NULL: not said."),
                ),
                ("since", models.DateTimeField()),
            ],
            options={
                "db_table": "log_note",
                "ordering": ("broker_id", "topic_id", "partition"),
                "indexes": [models.Index(name="log_note_by_broker", fields=["broker_id", "state"])],
                "constraints": [
                    models.UniqueConstraint(
                        name="log_note_is_unique", fields=("topic_id", "partition", "broker_id")
                    ),
                    models.CheckConstraint(
                        name="log_note_state_is_known",
                        condition=Q(state__in=("offline", "damaged", "mended", "leaderless")),
                    ),
                ],
            },
        ),
    ]
