"""Lets what a broker says of itself include which version it is, for people in the middle of an upgrade."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0016_partitions_that_are_unproven")]
    operations: ClassVar = [
        migrations.AddField(
            "brokercondition",
            "version",
            models.CharField(max_length=40, default="", db_default="", blank=True),
        ),
    ]
