"""Adds names that operators keep out of groups; who does not know them lets everybody in."""

from typing import ClassVar

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("groups", "0005_assignments_as_they_are_observed"),
    ]

    operations: ClassVar = [
        migrations.CreateModel(
            name="GroupQuarantine",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "member_id",
                    models.TextField(
                        db_collation="C",
                        help_text="A member's id; of a classic one its group.instance.id or client.id.",
                    ),
                ),
                ("length_ms", models.BigIntegerField()),
                ("why", models.TextField()),
                ("imposed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "group",
                    models.ForeignKey(
                        db_column="group_name",
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="quarantines",
                        to="groups.consumergroup",
                    ),
                ),
            ],
            options={
                "db_table": "group_quarantine",
                "ordering": ("group", "member_id"),
                "constraints": [
                    models.UniqueConstraint(fields=("group", "member_id"), name="group_quarantine_is_one"),
                    models.CheckConstraint(
                        condition=models.Q(("length_ms__gte", 0)), name="group_quarantine_in_range"
                    ),
                ],
            },
        ),
    ]
