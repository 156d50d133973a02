"""Keeps how far reassignments are: what has come to each new replica, and how fast leaders' logs grow."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models.deletion import CASCADE
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0012_partitions_that_are_removed")]
    operations: ClassVar = [
        migrations.AddField(
            "partitionprogress",
            "recent_size_bytes",
            models.BigIntegerField(null=True, help_text="What `size_bytes` was at `recent_at`."),
        ),
        migrations.AddField(
            "partitionprogress",
            "earlier_size_bytes",
            models.BigIntegerField(null=True, help_text="What it was at `earlier_at`."),
        ),
        migrations.AddField(
            "reassignment",
            "copied_bytes",
            models.BigIntegerField(
                null=True, blank=True, help_text="How much was copied when it ended; NULL: nobody said."
            ),
        ),
        migrations.CreateModel(
            name="Arrival",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "move",
                    models.ForeignKey(
                        on_delete=CASCADE, related_name="arrivals", to="controller.reassignment"
                    ),
                ),
                ("broker_id", models.IntegerField()),
                ("held_bytes", models.BigIntegerField()),
                ("at", models.DateTimeField(db_default=Now())),
                (
                    "grew_at",
                    models.DateTimeField(db_default=Now(), help_text="When it was last more than before."),
                ),
                ("recent_bytes", models.BigIntegerField(help_text="What `held_bytes` was at `recent_at`.")),
                (
                    "recent_at",
                    models.DateTimeField(db_default=Now(), help_text="At most some seconds before `at`."),
                ),
                (
                    "earlier_bytes",
                    models.BigIntegerField(null=True, help_text="What it was at `earlier_at`."),
                ),
                (
                    "earlier_at",
                    models.DateTimeField(null=True, help_text="Some seconds before `recent_at`."),
                ),
            ],
            options={"db_table": "arrival"},
        ),
        migrations.AddConstraint(
            "arrival",
            models.UniqueConstraint(name="arrival_is_the_only_one", fields=("move", "broker_id")),
        ),
        migrations.AddConstraint(
            "arrival",
            models.CheckConstraint(name="arrival_has_bytes", condition=models.Q(held_bytes__gte=0)),
        ),
    ]
