"""Lets a node's run say which version it is, for people in the middle of an upgrade."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runtime", "0009_up_to_where_a_promoted_database_is_proven")]
    operations: ClassVar = [
        migrations.AddField(
            "nodesession",
            "version",
            models.CharField(
                max_length=40,
                default="",
                db_default="",
                blank=True,
                help_text="What it runs; empty: a version that does not say.",
            ),
        ),
    ]
