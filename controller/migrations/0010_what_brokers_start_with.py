"""Adds what the environment of a broker says of configs, so that any door can describe it."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0009_brokers_that_leave")]
    operations: ClassVar = [
        migrations.AddField(
            "broker",
            "static_configs",
            models.JSONField(
                default=dict,
                db_default={},
                blank=True,
                help_text="What its environment says of configs, by the names of topics' where they have one.",
            ),
        ),
    ]
