"""Lets the row of a partition say that a database that was set back may name the wrong replicas in sync."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0015_rows_that_can_be_read")]
    operations: ClassVar = [
        migrations.AddField(
            "partition",
            "unproven",
            models.PositiveSmallIntegerField(
                default=0,
                db_default=0,
                help_text="Of a database that was set back; 0: nobody waits for replicas to show their logs.",
            ),
        ),
    ]
