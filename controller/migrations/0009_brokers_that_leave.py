"""Adds that a broker is about to stop, and that an operator wants no new replicas on it."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0008_quotas_of_clients")]
    operations: ClassVar = [
        migrations.AddField(
            "broker",
            "leaving",
            models.BooleanField(
                default=False,
                db_default=False,
                help_text="It is about to stop: serves on, is not elected any more.",
            ),
        ),
        migrations.AddField(
            "broker",
            "cordoned",
            models.BooleanField(
                default=False, db_default=False, help_text="An operator wants no new replicas on it."
            ),
        ),
    ]
