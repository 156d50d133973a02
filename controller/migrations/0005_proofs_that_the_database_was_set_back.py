"""Adds how a broker has proved that the database was set back, for the page that tells people of it."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0004_reassignments")]
    operations: ClassVar = [
        migrations.AddField(
            "broker",
            "set_back",
            models.CharField(
                max_length=200,
                default="",
                db_default="",
                blank=True,
                help_text="How it has proved that this database was set back; empty once it registers.",
            ),
        ),
    ]
