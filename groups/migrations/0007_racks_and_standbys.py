"""Adds where members run, who of them stands by, and to how many members a partition is given."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("groups", "0006_names_that_are_kept_out"),
    ]

    operations: ClassVar = [
        migrations.AddField(
            model_name="consumergroup",
            name="copies",
            field=models.SmallIntegerField(
                db_default=2, help_text="To how many members the redundant assignor gives a partition."
            ),
        ),
        migrations.AddConstraint(
            model_name="consumergroup",
            constraint=models.CheckConstraint(
                condition=models.Q(("copies__gte", 2)), name="consumer_group_copies"
            ),
        ),
        migrations.AddField(
            model_name="groupmember",
            name="rack",
            field=models.CharField(
                blank=True, db_default="", help_text="Where it says that it runs.", max_length=249
            ),
        ),
        migrations.AddField(
            model_name="groupmember",
            name="stands_by",
            field=models.BooleanField(
                db_default=False, help_text="It may stand by for partitions that another member owns."
            ),
        ),
    ]
